"""The runtime: finds, checks and calls precompiled functions. Imports neither jax nor numpy.

`cli/app.py` lists the environment variables of aotbuild. Where jax is not imported,
`numpy/backend.py` reads `JAX_PLATFORMS`, `JAX_ENABLE_X64` and `JAX_NUM_CPU_DEVICES` as jax does.
"""
