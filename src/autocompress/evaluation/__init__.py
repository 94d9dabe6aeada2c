"""What a served model costs and what it can do: load test, benchmarks, bits per byte, scorecard."""
