"""The recover stage: slice the chosen architecture out of the parent and distil it."""
