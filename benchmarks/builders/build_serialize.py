"""Serialize a compiled model with jax.experimental.serialize_executable."""

import pickle

import jax
from build_support import parse_job
from jax.experimental import serialize_executable

job = parse_job()
compiled = jax.jit(job.function()).lower(*job.arguments()).compile()
stored = pickle.dumps(serialize_executable.serialize(compiled))
(job.artifact / "executable.pickle").write_bytes(stored)
