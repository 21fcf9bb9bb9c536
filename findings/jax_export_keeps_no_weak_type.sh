#!/usr/bin/env bash
# jax 0.12.0.1: jax.export of a function of a Python number, whose result meets a bfloat16.
#
# Guess: an exported function is the function, so what follows it has the same dtypes.
#
# Seen: an exported result has no weak type. f(1.0) + bfloat16 is bfloat16 with jax.jit, and float32
# with the exported f, also inside a jit. Later steps then run in float32, or no longer fit.
set -euo pipefail
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT; cd "$work"
"${PYTHON:-python3.12}" -m venv env
env/bin/pip install --quiet --disable-pip-version-check jax==0.12.0.1 flatbuffers==25.12.19
JAX_PLATFORMS=cpu env/bin/python -c '
import jax, jax.numpy as jnp
f = jax.jit(lambda x: x * 2)
exported = jax.export.deserialize(jax.export.export(f)(1.0).serialize())
for name, g in {"jit": f, "export": exported.call}.items():
    print(name, g(1.0).weak_type, (g(1.0) + jnp.bfloat16(1)).dtype,
          jax.jit(lambda x: g(x) + jnp.bfloat16(1))(1.0).dtype)' | tee found
grep -q '^jit True bfloat16 bfloat16' found
grep -q '^export False float32 float32' found
