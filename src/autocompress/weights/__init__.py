"""Transformations of checkpoints, tensor by tensor: reorder, slice, export."""
