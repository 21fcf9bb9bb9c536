"""Entries of JAX's own persistent compilation cache, made of the executables of a package."""
