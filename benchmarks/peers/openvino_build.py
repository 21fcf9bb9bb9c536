"""Compile a model with OpenVINO: the blob that it exports, or its cache folder filled once.

`--hoist yes` keeps the blob; otherwise `model.onnx` stays, and the cache that it was compiled into.
"""

import sys
from pathlib import Path

import openvino as ov
from onnx_graphs import make_model

sys.path.insert(0, str(Path(__file__).parents[1] / "builders"))
from build_support import parse_job, read_arrays

job = parse_job()
model = make_model(job.model, read_arrays(job.weights), read_arrays(job.inputs))
source = job.artifact / "model.onnx"
source.write_bytes(model.SerializeToString())
core = ov.Core()
settings = {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32"}
if job.hoist:
    compiled = core.compile_model(source, "CPU", settings)
    (job.artifact / "model.blob").write_bytes(compiled.export_model().getvalue())
    source.unlink()
else:
    core.compile_model(source, "CPU", {**settings, "CACHE_DIR": str(job.artifact / "cache")})
