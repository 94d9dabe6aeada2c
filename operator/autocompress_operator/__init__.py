"""The Kubernetes operator: it runs the stages of CompressionJobs as Jobs and keeps their status."""
