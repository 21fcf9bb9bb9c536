"""The runtime: finds, checks and calls precompiled functions. Imports neither jax nor numpy."""
