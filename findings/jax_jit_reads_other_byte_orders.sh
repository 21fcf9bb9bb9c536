#!/usr/bin/env bash
# jax 0.12.0.1: jax.jit of an array in big-endian order, as netCDF and FITS files have them.
#
# Guess: jit refuses the dtype >f4, always; or it converts.
#
# Seen: it refuses it unless a call with the same shape in native order came before: then its fast
# path takes the array and reads the bytes in native order: other numbers, no error.
set -euo pipefail
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT; cd "$work"
"${PYTHON:-python3.12}" -m venv env
env/bin/pip install --quiet --disable-pip-version-check jax==0.12.0.1
JAX_PLATFORMS=cpu env/bin/python -c '
import jax, numpy as np
native = np.array([1, 2, 3], np.float32)
for name, first in {"cold": [], "warm": [native, native]}.items():
    double = jax.jit(lambda x: x * 2)
    for x in first:
        double(x)
    try:
        print(name, double(native.astype(">f4")).tolist())
    except TypeError as err:
        print(name, "refused")' | tee found
grep -q '^cold refused' found
grep -q '^warm \[' found
! grep -q '^warm \[2.0, 4.0, 6.0\]' found
