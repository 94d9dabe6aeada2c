"""Compress a language model for a deployment: its accelerator, engine, workload and budget."""

__version__ = "0.1.0"
