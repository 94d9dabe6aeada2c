"""What any store must pass, and real servers to test against; for tests alone (needs pytest)."""
