"""From a finished job to manifests that serve its model, pinned by digest."""
