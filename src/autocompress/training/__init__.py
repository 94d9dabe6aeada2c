"""Training: losses, optimizer, steps and checkpoints, for search and recovery alike."""
