"""Which parts of a model matter most, by what calibration text does in them."""
