"""A Kubernetes cluster as the command line reads it; nothing here writes to one."""
