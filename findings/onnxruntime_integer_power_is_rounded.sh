#!/usr/bin/env bash
# ONNX Runtime 1.32.0 for CPUs: Pow of int64 and int32, such as jnp.power of integers becomes.
#
# Guess: an operation that takes int64 and returns int64 is exact as long as the result fits, and wraps
# where it does not, as with numpy and XLA.
#
# Seen: it goes through float64. 3**39 fits and is off by 11. Where int32 overflows, 46341**2 and 3**20
# are the lowest int32.
set -euo pipefail
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT; cd "$work"
"${PYTHON:-python3.12}" -m venv env
env/bin/pip install --quiet --disable-pip-version-check onnx==1.23.2 onnxruntime==1.32.0 numpy==2.4.6
env/bin/python -c '
import numpy as np, onnxruntime
from onnx import helper
def power(base, exponent):
    kind = helper.np_dtype_to_tensor_dtype(base.dtype)
    given = [helper.make_tensor_value_info(name, kind, base.shape) for name in "xe"]
    graph = helper.make_graph([helper.make_node("Pow", ["x", "e"], ["y"])], "g", given,
                              [helper.make_tensor_value_info("y", kind, None)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    return session.run(None, {"x": base, "e": exponent})[0].tolist()
print("3**39 is off by", 3**39 - power(np.array([3]), np.array([39]))[0])
base, exponent = np.array([46341, 3], np.int32), np.array([2, 20], np.int32)
print("int32", power(base, exponent), "numpy", (base**exponent).tolist())' | tee found
grep -q '^3\*\*39 is off by 11' found
grep -q '^int32 \[-2147483648, -2147483648\] numpy \[-2147479015, -808182895\]' found
