#!/bin/sh
# On the machine with the GPU, in the folder that prepare.sh filled: install, test, measure.
#   sh tests/run.sh [RESULTS]        RESULTS: the folder for the measured results, default: results
# Needs Python 3.11 or later with venv, an NVIDIA driver for CUDA 13, and the package index (or
# PIP_FIND_LINKS and PIP_NO_INDEX). PYTHON names the interpreter, VENV the environment to make.
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
results=${1:-$here/results}
venv=${VENV:-$here/venv}
"${PYTHON:-python3}" -m venv "$venv"
python=$venv/bin/python
wheel=$(ls "$here"/gpu_probe-*.whl)
jax=$(unzip -p "$wheel" '*.dist-info/METADATA' | sed -n 's/^Requires-Dist: jax==\([^ ;]*\).*/\1/p')
"$python" -m pip install --quiet --find-links "$here" "jax[cuda13]==$jax" pytest "$wheel" \
    'aotbuild[build]'
export AOTBUILD_NEIGHBOUR="$here/neighbour/_aot"
"$python" -m aotbuild.cli doctor gpu_probe
"$python" -m aotbuild.cli doctor --describe-gpu
"$python" -m pytest -q -p no:cacheprovider -o 'markers=gpu: needs a GPU' \
    "$here/tests/test_device_gpu.py"
"$python" "$here/tests/measure.py" "$results"
