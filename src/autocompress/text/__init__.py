"""Text for calibration, training and held-out loss, from what an installation already has."""
