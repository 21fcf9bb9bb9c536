"""Ways to call executables: with jax arrays, or with numpy arrays and without jax."""
