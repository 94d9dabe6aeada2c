"""The vLLM plugin that serves heterogeneous models; every vLLM process loads it, so it is small."""
