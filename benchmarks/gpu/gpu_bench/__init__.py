"""Functions as users of jax write them for GPUs, and what they are called with."""
