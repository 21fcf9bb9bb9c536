"""The models that every system runs, from the same weights and inputs."""
