#!/usr/bin/env bash
# equinox 0.13.8 with jax 0.12.0.1: tree_deserialise_leaves into a model that holds jnp.asarray(0.1).
#
# Guess: leaves that are loaded have the avals of `like`; shape and dtype are checked, and what was
# compiled for `like` serves them.
#
# Seen: the weak type of such a leaf is lost, and jax.jit traces and compiles once more. The result has
# another dtype where the leaf meets a bfloat16. An executable that was made ahead refuses the call.
set -euo pipefail
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT; cd "$work"
"${PYTHON:-python3.12}" -m venv env
env/bin/pip install --quiet --disable-pip-version-check equinox==0.13.8 jax==0.12.0.1
JAX_PLATFORMS=cpu env/bin/python -c '
import io, equinox, jax, jax.numpy as jnp
model = {"scale": jnp.asarray(0.1), "weight": jnp.ones(3, jnp.bfloat16)}
file = io.BytesIO()
equinox.tree_serialise_leaves(file, model)
file.seek(0)
loaded = equinox.tree_deserialise_leaves(file, model)
traces = []
@jax.jit
def f(model):
    traces.append(1)
    return model["scale"] * model["weight"]
print("weak", model["scale"].weak_type, loaded["scale"].weak_type)
print("result", f(model).dtype, f(loaded).dtype)
print("traces", len(traces))' | tee found
grep -q '^weak True False' found
grep -q '^result bfloat16 float32' found
grep -q '^traces 2' found
