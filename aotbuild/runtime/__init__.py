"""Finds, checks and calls precompiled functions. Importing it loads neither jax nor numpy."""
