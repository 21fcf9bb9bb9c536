"""Ways to call executables: with arrays of jax, or with arrays of numpy and no jax."""
