#!/usr/bin/env bash
# safetensors 0.8.0 with jax 0.12.0.1: safetensors.flax.save of a jax array.
#
# Guess: an array of jax has no strides, so its device layout is jax's own business: a file has the
# array's values, or save refuses.
#
# Seen: of an array that was placed with Format(Layout((1, 0)), …) the file has the memory as it lies
# there, under the array's shape: other values come back, and nothing says so. Copy such an array first.
# And load() refuses the bfloat16 that save() wrote (KeyError: BF16); load_file() takes it.
set -euo pipefail
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT; cd "$work"
"${PYTHON:-python3.12}" -m venv env
env/bin/pip install --quiet --disable-pip-version-check safetensors==0.8.0 flax==0.12.12 jax==0.12.0.1
JAX_PLATFORMS=cpu env/bin/python -c '
import jax, jax.numpy as jnp
from jax.experimental.layout import Format, Layout
from safetensors.flax import load, load_file, save, save_file
x = jnp.arange(6.0).reshape(2, 3)
columns = jax.device_put(x, Format(Layout((1, 0)), x.sharding))
print("plain", load(save({"x": x}))["x"].tolist())
print("columns", load(save({"x": columns}))["x"].tolist(), bool((columns == x).all()))
half = {"x": x.astype(jnp.bfloat16)}
save_file(half, "half")
print("load_file", load_file("half")["x"].dtype)
try:
    print("load", load(save(half))["x"].dtype)
except KeyError as err:
    print("load", repr(err))' | tee found
grep -q '^plain \[\[0.0, 1.0, 2.0\], \[3.0, 4.0, 5.0\]\]' found
grep -q '^columns \[\[0.0, 3.0, 1.0\], \[4.0, 2.0, 5.0\]\] True' found
grep -q '^load_file bfloat16' found
grep -q "^load KeyError('BF16')" found
