#!/usr/bin/env bash
# ONNX Runtime 1.32.0 for CPUs: ReduceMax and MaxPool of 33 numbers, one of which is NaN.
#
# Guess: a maximum with a NaN is NaN, as with numpy, XLA and ONNX Runtime's own Max and ReduceSum. If
# not, then NaN is left out wherever it is.
#
# Seen: ReduceMax and ReduceMin have NaN if it comes first, and leave it out if it comes last. MaxPool
# leaves it out, and a window of NaN alone gives -3.4028235e+38. A check for NaN after a pooling layer
# finds none.
set -euo pipefail
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT; cd "$work"
"${PYTHON:-python3.12}" -m venv env
env/bin/pip install --quiet --disable-pip-version-check onnx==1.23.2 onnxruntime==1.32.0 numpy==2.4.6
env/bin/python -c '
import numpy as np, onnxruntime
from onnx import TensorProto, helper
def run(node, x):
    given = helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)
    made = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    model = helper.make_model(helper.make_graph([node], "g", [given], [made]),
                              opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    return float(np.ravel(session.run(None, {"x": x})[0])[0])
first = np.ones(33, np.float32)
first[0] = np.nan
last = first[::-1].copy()
for name in ("ReduceSum", "ReduceMax", "ReduceMin"):
    node = helper.make_node(name, ["x"], ["y"], keepdims=0)
    print(name, "first", run(node, first), "last", run(node, last))
pool = helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[33])
print("MaxPool", "first", run(pool, first.reshape(1, 1, -1)), "last", run(pool, last.reshape(1, 1, -1)))
one = helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[1])
print("MaxPool of NaN", run(one, np.full((1, 1, 1), np.nan, np.float32)))' | tee found
grep -q '^ReduceSum first nan last nan' found
grep -q '^ReduceMax first nan last 1.0' found
grep -q '^ReduceMin first nan last 1.0' found
grep -q '^MaxPool first 1.0 last 1.0' found
grep -q '^MaxPool of NaN -3.40' found
