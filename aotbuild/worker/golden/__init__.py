"""Golden outputs: what the function returns under plain jax.jit, kept for `aotbuild verify`.

`inputs` makes the arguments, `reference` runs the function, and `make` decides whether to run it.
"""
