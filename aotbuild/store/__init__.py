"""The store: compiled bytes by the key of their inputs, shared by all builds of a user."""
