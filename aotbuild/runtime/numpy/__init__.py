"""The numpy backend: numpy arrays in and out, on devices of its own. It never imports jax."""
