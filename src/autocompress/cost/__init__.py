"""The cost table and the models built on it: from block sizes to times and bytes."""
