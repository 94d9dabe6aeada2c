"""The job schema, version by version, and how a job file is read."""
