"""What hardware a target names: what it needs to be built, and what XLA is told about it."""
