#!/usr/bin/env bash
# OpenVINO 2026.4.1 for CPUs: sums of integers.
#
# Guess: a model that declares i32 or i64 computes with these numbers exactly, or is refused.
#
# Seen: i64 is i32 inside, without a word: 2**40 + 1 is 1. Additions and cumulative sums of i32 are
# exact; ReduceSum of i32 goes through f32, and 2**24 + 1 + 1 + 1 is 2**24. Hashes, counters and
# ids of tokens above 16,777,216 change.
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
    result = model(list(arrays))[0]
    return result.dtype, np.ravel(result).tolist()
x, one = np.array([2**24 + 1, 1, 1], np.int32), np.ones(3, np.int32)
print("add", *run(ops.add, x, one))
print("sum", *run(lambda x: ops.reduce_sum(x, np.array([0]), False), x))
print("i64", *run(ops.add, np.array([2**40], np.int64), np.ones(1, np.int64)))' 2>&1 | tee found
grep -q '^add int32 \[16777218, 2, 2\]' found
grep -q '^sum int32 \[16777216\]' found   # right: 16777219
grep -q '^i64 int64 \[1\]' found          # right: 1099511627777
