"""Serialize a model with jax.export."""

import jax
from build_support import parse_job
from jax import export

job = parse_job()
exported = export.export(jax.jit(job.function()))(*job.arguments())
(job.artifact / "exported.bin").write_bytes(exported.serialize())
