#!/usr/bin/env bash
# jax 0.12.0.1 with its CUDA 13 plugin and without NVIDIA's libraries, as in a slim container; no GPU.
#
# Guess: jax.devices() under JAX_PLATFORMS=cuda raises a RuntimeError that names the missing library.
#
# Seen: it raises an AssertionError without a text. Under JAX_PLATFORMS=cpu,cuda, jax.devices("cuda")
# says "Unknown backend cuda", as if the plugin were not installed. The reason, "Unable to load
# cuDNN", is only logged. jax 0.10.2 does the same.
set -euo pipefail
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT; cd "$work"
"${PYTHON:-python3.12}" -m venv env
env/bin/pip install --quiet --disable-pip-version-check jax==0.12.0.1 jax-cuda13-plugin==0.12.0.1 \
    jax-cuda13-pjrt==0.12.0.1
ask() {
    JAX_PLATFORMS=$1 env/bin/python -c 'import jax, sys
try: jax.devices(sys.argv[1])
except Exception as err: print(type(err).__name__, str(err)[:21])' "$2" 2>log
    grep -o "Unable to load cuDNN" log | sort -u
}
alone=$(ask cuda cuda) beside=$(ask cpu,cuda cuda)
printf 'JAX_PLATFORMS=cuda: %s\nJAX_PLATFORMS=cpu,cuda: %s\n' "${alone/$'\n'/; logged: }" "${beside/$'\n'/; logged: }"
[ "$alone" = $'AssertionError \nUnable to load cuDNN' ]
[ "$beside" = $'RuntimeError Unknown backend cuda.\nUnable to load cuDNN' ]
