"""The runtime: finds, checks and calls precompiled functions. Imports neither jax nor numpy.

Environment variables that are read here:

- `AOTBUILD_FALLBACK` (package.py): what a call without an executable does.
- `AOTBUILD_BUILDING` (api.py): set by workers, so that decorated functions call their source.
- `JAX_PLATFORMS`, `JAX_ENABLE_X64`, `JAX_NUM_CPU_DEVICES` (numpy/backend.py): as jax reads them,
  where jax is not imported.
"""
