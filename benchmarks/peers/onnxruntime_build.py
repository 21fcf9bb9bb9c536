"""Make an ONNX Runtime model: graph optimizations for this machine are done ahead, and kept.

The result is the runtime's own flatbuffer, which loads without parsing protobuf, weights inside.
With `--startup mapped` it is an ONNX file with the weights in another one, which is mapped.
"""

import sys
from pathlib import Path

import onnxruntime as ort
from onnx_graphs import make_model

sys.path.insert(0, str(Path(__file__).parents[1] / "builders"))
from build_support import parse_job, read_arrays

_MAPPED = {
    "session.optimized_model_external_initializers_file_name": "weights.bin",
    "session.optimized_model_external_initializers_min_size_in_bytes": "1024",
}

job = parse_job()
model = make_model(job.model, read_arrays(job.weights), read_arrays(job.inputs))
source = job.artifact / "source.onnx"
source.write_bytes(model.SerializeToString())
options = ort.SessionOptions()
options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
mapped = job.startup == "mapped"
options.optimized_model_filepath = str(job.artifact / ("model.onnx" if mapped else "model.ort"))
for key, value in (_MAPPED if mapped else {"session.save_model_format": "ORT"}).items():
    options.add_session_config_entry(key, value)
ort.InferenceSession(source, options, providers=["CPUExecutionProvider"])
source.unlink()
