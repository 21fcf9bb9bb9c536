#!/usr/bin/env bash
# OpenVINO 2026.4.1 for CPUs: activations of NaN in f32.
#
# Guess: a NaN goes through a network to its output, as with numpy and XLA: only comparisons lose it.
#
# Seen: relu, clamp and maximum(NaN, 0) give 0, and exp gives infinity. Of a softmax with one NaN the
# other elements are 0. maximum(0, NaN), tanh, sigmoid and a sum are NaN. A network that ends in a relu
# answers with zeros, where XLA's answer shows that its weights or inputs are broken.
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
x, zero = np.array([np.nan, 1, 1, 1], np.float32), np.zeros(4, np.float32)
print("relu", run(ops.relu, x)[0])
print("clamp", run(lambda x: ops.clamp(x, 0.0, 1.0), x)[0])
print("maximum(NaN, 0)", run(ops.maximum, x, zero)[0])
print("maximum(0, NaN)", run(ops.maximum, zero, x)[0])
print("exp", run(ops.exp, x)[0])
print("softmax", run(lambda x: ops.softmax(x, 0), x)[1:])
print("tanh", run(ops.tanh, x)[0])' 2>&1 | tee found
grep -q '^relu 0.0' found
grep -q '^clamp 0.0' found
grep -q '^maximum(NaN, 0) 0.0' found
grep -q '^maximum(0, NaN) nan' found
grep -q '^exp inf' found
grep -q '^softmax \[0.0, 0.0, 0.0\]' found
grep -q '^tanh nan' found
