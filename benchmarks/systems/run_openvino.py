"""OpenVINO: a compiled blob that is mapped and imported, or a model in its cache."""

from pathlib import Path
from typing import Any

import run_support as run

import numpy as np

run.mark("import numpy")
import openvino as ov

run.mark("import openvino")
artifact = Path(run.OPTIONS["--artifact"])
core = ov.Core()
# Without the hint it computes in bf16 where the CPU can, and the outputs are off by 1%.
settings = {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32"}
if run.OPTIONS["--hoist"] == "yes":
    blob = ov.Tensor(np.memmap(artifact / "model.blob", np.uint8, "c"), shared_memory=True)
    compiled = core.import_model(blob, "CPU", settings)
else:
    settings["CACHE_DIR"] = str(artifact / "cache")
    compiled = core.compile_model(artifact / "model.onnx", "CPU", settings)
request = compiled.create_infer_request()
run.mark("load")
inputs = list(run.read_arrays("--inputs").values())
run.mark("inputs")


def call() -> list[Any]:
    """Call once, numpy in and out."""
    return [np.array(output) for output in request.infer(inputs).values()]


run.finish(call)
