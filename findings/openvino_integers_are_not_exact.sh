#!/usr/bin/env bash
# OpenVINO 2026.4.1 for CPUs: sums, comparisons and remainders of integers.
#
# Guess: a model that declares i32 or i64 computes with these numbers exactly and wraps where they do
# not fit, or is refused. If not, then all operations of one dtype do alike.
#
# Seen: each operation has its own way. Additions of i32 are exact; ReduceSum, Equal and Mod go through
# f32, so that 2**24 + 1 equals 2**24, and is even. u8 saturates, i16 wraps. i64 is i32 inside, without
# a word: 2**40 + 1 is 1. Hashes, counters and ids above 16,777,216 change.
set -euo pipefail
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT; cd "$work"
"${PYTHON:-python3.12}" -m venv env
env/bin/pip install --quiet --disable-pip-version-check openvino==2026.4.1 numpy==2.4.6
env/bin/python -c '
import numpy as np, openvino
from openvino import opset15 as ops
def run(function, *arrays):
    given = [ops.parameter(array.shape, array.dtype) for array in arrays]
    model = openvino.compile_model(openvino.Model([function(*given)], given), "CPU")
    return np.ravel(model(list(arrays))[0]).tolist()
def ints(dtype, *values):
    return np.array(values, dtype)
x, one = ints("i4", 2**24 + 1, 1, 1), ints("i4", 1, 1, 1)
print("add", run(ops.add, x, one))
print("sum", run(lambda x: ops.reduce_sum(x, np.array([0]), False), x))
print("equal", run(ops.equal, x[:1], ints("i4", 2**24)))
print("mod 2", run(ops.mod, x[:1], ints("i4", 2)))
print("u8", run(ops.add, ints("u1", 250), ints("u1", 10)))
print("i16", run(ops.add, ints("i2", 32767), ints("i2", 1)))
print("i64", run(ops.add, ints("i8", 2**40), ints("i8", 1)))' 2>&1 | tee found
grep -q '^add \[16777218, 2, 2\]' found
grep -q '^sum \[16777216\]' found    # right: 16777219
grep -q '^equal \[True\]' found      # right: False
grep -q '^mod 2 \[0\]' found         # right: 1
grep -q '^u8 \[255\]' found          # wrapped: 4
grep -q '^i16 \[-32768\]' found
grep -q '^i64 \[1\]' found           # right: 1099511627777
