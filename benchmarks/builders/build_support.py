"""What every builder does alike: its options, the model and its arguments."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

MODELS = Path(__file__).parent.parent / "models"


@dataclass(frozen=True)
class Job:
    """What to build, where to, and the further options of the system."""

    model: str
    weights: Path
    inputs: Path
    artifact: Path
    startup: str
    hoist: bool
    apply: str

    def arguments(self) -> tuple[Any, ...]:
        """Return the arguments of one call: weights, if there are any, then the inputs."""
        weights, inputs = read_arrays(self.weights), read_arrays(self.inputs)
        return ((weights,) if weights else ()) + tuple(inputs.values())

    def function(self) -> Callable[..., Any]:
        """Return the model's function. Imports jax."""
        sys.path.insert(0, str(MODELS))
        apply: Callable[..., Any] = getattr(importlib.import_module(self.model), self.apply)
        return apply


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """Return the arrays of an .npz in its order."""
    with np.load(path) as archive:
        return dict(archive)


def parse_job() -> Job:
    """Return the job that the command line names."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", required=True)
    for name in ("weights", "inputs", "artifact"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--startup", default="")
    parser.add_argument("--hoist", default="no", choices=["yes", "no"])
    parser.add_argument("--apply", default="apply", help="the function of the model's module")
    options = parser.parse_args()
    options.artifact.mkdir(parents=True, exist_ok=True)
    return Job(**{**vars(options), "hoist": options.hoist == "yes"})
