"""The child process: imports the user's code, traces it, lowers and compiles it.

Everything here runs in a process of its own and speaks JSON with its parent (see `main`). Nothing
outside this package imports the user's code or starts jax.
"""
