"""ONNX Runtime: a session of a model that was optimized ahead; weights inside, or mapped."""

from pathlib import Path
from typing import Any

import run_support as run

import numpy as np

run.mark("import numpy")
import onnxruntime as ort

run.mark("import onnxruntime")
options = ort.SessionOptions()
options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
file = "model.ort"
if run.OPTIONS.get("--startup") == "mapped":
    file = "model.onnx"
    # Packing would copy what was mapped: faster calls, a slower start.
    options.add_session_config_entry("session.disable_prepacking", "1")
path = str(Path(run.OPTIONS["--artifact"], file))
session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
run.mark("load")
inputs = run.read_arrays("--inputs")
run.mark("inputs")


def call() -> list[Any]:
    """Call once, numpy in and out."""
    return [np.asarray(output) for output in session.run(None, inputs)]


run.finish(call)
