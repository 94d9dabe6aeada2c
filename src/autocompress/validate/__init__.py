"""The validate stage: both models measured in the engine on the declared workload, and judged."""
