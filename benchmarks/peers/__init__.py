"""The other systems: how their artifacts are made from the same weights."""
