"""The jax backend: jax arrays in and out, on jax's devices, with transformations and fallbacks."""
