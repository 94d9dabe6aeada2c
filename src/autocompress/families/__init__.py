"""Model families as data: how a family writes its configuration and names its tensors."""
