#!/usr/bin/env bash
# jax 0.12.0.1: an executable for one device, serialized by jax.experimental.serialize_executable, in a
# process that has four.
#
# Guess: it runs on the first device, as what jit compiled for one device does, or loading it fails.
#
# Seen: it loads, and each call fails: it expects four shards. The loader takes all devices that are
# there unless execution_devices= names them. A server with more devices than the machine that compiled
# finds out with its first request.
set -euo pipefail
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT; cd "$work"
"${PYTHON:-python3.12}" -m venv env
env/bin/pip install --quiet --disable-pip-version-check jax==0.12.0.1
export JAX_PLATFORMS=cpu
env/bin/python -c '
import pickle, jax, jax.numpy as jnp
from jax.experimental import serialize_executable
compiled = jax.jit(lambda x: x * 2).lower(jnp.ones(3)).compile()
pickle.dump(serialize_executable.serialize(compiled), open("executable", "wb"))'
cat >call.py <<'P'
import pickle, jax, jax.numpy as jnp
from jax.experimental.serialize_executable import deserialize_and_load
parts = pickle.load(open("executable", "rb"))
for name, options in {"all": {}, "first": {"execution_devices": jax.devices()[:1]}}.items():
    loaded = deserialize_and_load(*parts, **options)
    try:
        print(len(jax.devices()), "devices,", name, loaded(jnp.ones(3)).tolist())
    except Exception as err:
        print(len(jax.devices()), "devices,", name, str(err).splitlines()[0])
P
{ env/bin/python call.py; XLA_FLAGS=--xla_force_host_platform_device_count=4 env/bin/python call.py; } | tee found
grep -q '^1 devices, all \[2.0, 2.0, 2.0\]' found
grep -q '^4 devices, all .*to have 4 shards, got: \[1\]' found
grep -q '^4 devices, first \[2.0, 2.0, 2.0\]' found
