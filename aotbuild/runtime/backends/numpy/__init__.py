"""The numpy door: calls executables with numpy arrays. Nothing here imports jax."""
