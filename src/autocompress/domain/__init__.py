"""Frozen values in base units (seconds, bytes, tokens); nothing but the standard library."""
