"""Where a parent model comes from: its identity, and a local folder with its files."""
