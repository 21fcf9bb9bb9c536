#!/usr/bin/env bash
# ONNX Runtime 1.32.0 for CPUs: Pow of int64 and int32, such as jnp.power of integers becomes.
#
# Guess: an operation that takes int64 and returns int64 is exact as long as the result fits, and wraps
# where it does not, as with numpy and XLA.
#
# Seen: it goes through float64. 3**39 fits and is off by 11. Where int32 overflows, 46341**2 is the
# lowest int32 if the exponent is an input, and wraps if it is a scalar constant of the graph.
set -euo pipefail
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT; cd "$work"
"${PYTHON:-python3.12}" -m venv env
env/bin/pip install --quiet --disable-pip-version-check onnx==1.23.2 onnxruntime==1.32.0 numpy==2.4.6
env/bin/python -c '
import numpy as np, onnxruntime
from onnx import helper, numpy_helper
def power(base, exponent, constant):
    given = {"x": base} if constant else {"x": base, "e": exponent}
    kind = helper.np_dtype_to_tensor_dtype(base.dtype)
    graph = helper.make_graph(
        [helper.make_node("Pow", ["x", "e"], ["y"])], "g",
        [helper.make_tensor_value_info(name, kind, array.shape) for name, array in given.items()],
        [helper.make_tensor_value_info("y", kind, None)],
        [numpy_helper.from_array(exponent.reshape(()), "e")] if constant else [])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    return int(session.run(None, given)[0][0])
print("3**39 is off by", 3**39 - power(np.array([3]), np.array([39]), False))
base, two = np.array([46341], np.int32), np.array([2], np.int32)
print("46341**2: input", power(base, two, False), "constant", power(base, two, True),
      "numpy", int((base**two)[0]))' | tee found
grep -q '^3\*\*39 is off by 11' found
grep -q '^46341\*\*2: input -2147483648 constant -2147479015 numpy -2147479015' found
