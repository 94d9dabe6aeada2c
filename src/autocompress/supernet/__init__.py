"""A parent whose sizes are chosen while it runs: soft during the search, a slice at a corner."""
