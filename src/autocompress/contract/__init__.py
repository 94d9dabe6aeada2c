"""What stages and runners agree on. Pure: no files, no clocks, no clients."""
