"""Fill jax's persistent compilation cache with a model, as a first process would."""

import jax
from build_support import parse_job

job = parse_job()
jax.config.update("jax_compilation_cache_dir", str(job.artifact))
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
arguments = job.arguments()
placed = (jax.device_put(arguments[0]), *arguments[1:])
jax.block_until_ready(jax.jit(job.function())(*(placed if job.weights else arguments)))
