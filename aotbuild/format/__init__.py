"""The vocabulary that build and runtime share. Imports neither jax nor yaml."""
