"""Compile a model with jax and keep the raw PJRT bytes, for `run_raw.py`."""

import jax
from build_support import parse_job

job = parse_job()
compiled = jax.jit(job.function(), keep_unused=True).lower(*job.arguments()).compile()
client = jax.devices()[0].client
stored = client.serialize_executable(compiled.runtime_executable())
(job.artifact / "executable.bin").write_bytes(stored)
