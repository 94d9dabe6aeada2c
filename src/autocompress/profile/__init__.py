"""The profile stage: what blocks cost in the engine, what the parent costs, and what is
feasible.
"""
