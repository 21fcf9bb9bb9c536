"""PyTorch without a compiler, for orientation: the module is made from the weights, and called."""

import sys
from pathlib import Path
from typing import Any

import run_support as run

import numpy as np

run.mark("import numpy")
import torch

run.mark("import torch")
sys.path.insert(0, str(Path(__file__).parents[1] / "peers"))
from torch_models import make_module

module = make_module(run.OPTIONS["--model"], run.read_arrays("--weights"))
run.mark("weights")
inputs = [torch.from_numpy(array) for array in run.read_arrays("--inputs").values()]
run.mark("inputs")


def call() -> list[Any]:
    """Call once, numpy in and out."""
    with torch.inference_mode():
        return [np.asarray(module(*inputs))]


run.finish(call)
