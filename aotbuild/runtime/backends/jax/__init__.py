"""The jax door: calls with jax's arrays, on its devices, and what that needs."""
