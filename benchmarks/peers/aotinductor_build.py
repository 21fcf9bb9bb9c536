"""Compile a model with PyTorch's AOTInductor, weights inside the package."""

import sys
from pathlib import Path

import torch
from torch._inductor import aoti_compile_and_package
from torch_models import make_module

sys.path.insert(0, str(Path(__file__).parents[1] / "builders"))
from build_support import parse_job, read_arrays

job = parse_job()
module = make_module(job.model, read_arrays(job.weights))
inputs = tuple(torch.from_numpy(array) for array in read_arrays(job.inputs).values())
with torch.no_grad():
    program = torch.export.export(module, inputs)
    aoti_compile_and_package(
        program,
        package_path=str(job.artifact / "model.pt2"),
        inductor_configs={"freezing": True} if job.startup == "frozen" else None,
    )
