"""vLLM: a server for measuring a deployment, and step timing in its own process."""
