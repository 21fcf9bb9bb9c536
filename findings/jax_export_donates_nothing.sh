#!/usr/bin/env bash
# jax 0.12.0.1: jax.export of a function with donate_argnums.
#
# Guess: the exported module has donation, as its text shows (tf.aliasing_output), so that calls of it
# reuse the argument's memory.
#
# Seen: they do not. The argument is not deleted, and XLA aliases 0 bytes. A jit around the call has to
# donate again: a cache of keys and values needs its memory twice until then.
set -euo pipefail
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT; cd "$work"
"${PYTHON:-python3.12}" -m venv env
env/bin/pip install --quiet --disable-pip-version-check jax==0.12.0.1 flatbuffers==25.12.19
JAX_PLATFORMS=cpu env/bin/python -c '
import jax, jax.numpy as jnp
x = jnp.ones(1000)
f = jax.jit(lambda x: x + 1, donate_argnums=0)
exported = jax.export.deserialize(jax.export.export(f)(x).serialize())
print("module", "tf.aliasing_output" in exported.mlir_module())
ways = {"jit": f, "export": jax.jit(exported.call),
        "export, donated again": jax.jit(exported.call, donate_argnums=0)}
for name, g in ways.items():
    aliased = g.lower(x).compile().memory_analysis().alias_size_in_bytes
    given = x + 0
    g(given)
    print(f"{name}: {aliased} bytes, deleted {given.is_deleted()}")' | tee found
grep -q '^module True' found
grep -q '^jit: 4000 bytes, deleted True' found
grep -q '^export: 0 bytes, deleted False' found
grep -q '^export, donated again: 4000 bytes, deleted True' found
