"""Measure executables of one function: in fresh processes, in turns; compare their outputs."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Protocol

import jax
import numpy as np

from aotbuild.format.golden import Tolerance, default_tolerance, near, widened
from aotbuild.format.target import HOST
from aotbuild.format.temporary import temporary_folder
from aotbuild.platforms.startup import Figures

_WORKER = Path(__file__).resolve().parents[1]
REPETITIONS = 3
# For one process, in seconds.
_TIMEOUT = 120.0


class Measurer(Protocol):
    """How executables are measured; tests have a fake."""

    def __call__(
        self, executables: Sequence[bytes], inputs: Sequence[Any], donated: Sequence[int]
    ) -> list[Figures | None]:
        """Return the figures of each; None for one that fails, or whose outputs differ."""


@dataclass(frozen=True)
class _Run:
    """What all children of one measurement share: a folder, and the inputs in it."""

    folder: Path
    inputs: tuple[str, ...]
    donated: tuple[int, ...]


def measure(
    executables: Sequence[bytes], inputs: Sequence[Any], donated: Sequence[int]
) -> list[Figures | None]:
    """Measure executables with the same inputs; all outputs must be near those of the first."""
    with temporary_folder(what="startup-") as folder:
        files = []
        for index, array in enumerate(inputs):
            file = folder / f"input-{index}.npy"
            write_array(file, array)
            files.append(str(file))
        run = _Run(folder, tuple(files), tuple(donated))
        for index, data in enumerate(executables):
            (folder / f"executable-{index}").write_bytes(data)
        rounds = [_round(run, len(executables), number) for number in range(REPETITIONS)]
        return [
            _median([found[index] for found in rounds]) if _agrees(folder, index) else None
            for index in range(len(executables))
        ]


def _round(run: _Run, count: int, number: int) -> list[dict[str, float] | None]:
    # Every second round goes backwards, so that no executable always runs after the same one.
    order = list(range(count)) if number % 2 == 0 else list(reversed(range(count)))
    found = {index: _child(run, index, first=number == 0) for index in order}
    return [found[index] for index in range(count)]


def _child(run: _Run, index: int, *, first: bool) -> dict[str, float] | None:
    outputs = run.folder / f"outputs-{index}"
    outputs.mkdir(exist_ok=True)
    start = {
        "aotbuild": str(_WORKER.parent),
        "path": sys.path,
        "whole": True,
        "module": "aotbuild.worker.tuning.child",
    }
    given = {
        "executable": str(run.folder / f"executable-{index}"),
        "inputs": run.inputs,
        "donated": run.donated,
        "x64": bool(jax.config.jax_enable_x64),
        "outputs": str(outputs) if first else None,
    }
    script = str(_WORKER / "start.py")
    command = [sys.executable, "-P", script, json.dumps(start), json.dumps(given)]
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=sys.stderr,
            timeout=_TIMEOUT,
            check=True,
        )
        found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    except (subprocess.SubprocessError, ValueError, IndexError):
        return None
    return found


def _median(runs: Sequence[dict[str, float] | None]) -> Figures | None:
    if any(run is None for run in runs):
        return None
    whole = [run for run in runs if run is not None]
    load, first, steady = (
        round(median(run[name] for run in whole), 2) for name in ("load", "first", "steady")
    )
    return Figures(load, first, steady)


def _agrees(folder: Path, index: int) -> bool:
    """Return whether an executable's outputs are near the first one's."""
    expected = sorted((folder / "outputs-0").iterdir())
    found = [folder / f"outputs-{index}" / file.name for file in expected]
    return all(
        there.exists() and is_near(read_array(here), read_array(there))
        for here, there in zip(expected, found, strict=True)
    )


def is_near(expected: Any, found: Any) -> bool:
    """Return whether an output is near another one, as its dtype allows; NaN equals NaN."""
    if expected.shape != found.shape or expected.dtype != found.dtype:
        return False
    relative = default_tolerance(str(expected.dtype), HOST)
    if not relative:
        return bool(expected.tobytes() == found.tobytes())
    here, there = widened(expected), widened(found)
    finite = np.abs(here[np.isfinite(here)])
    # The floats that it was computed with are not known here, so the largest number scales it.
    tolerance = Tolerance(HOST, atol=relative * float(finite.max(initial=0.0)))
    return bool(near(here, there, tolerance.bound(here, str(expected.dtype))).all())


def write_array(file: Path, array: Any) -> None:
    """Write dtype, shape and bytes of an array, because numpy's format has no bfloat16."""
    flat = np.ascontiguousarray(array)
    with file.open("wb") as stream:
        np.save(stream, np.array([str(flat.dtype)]), allow_pickle=False)
        np.save(stream, np.array(flat.shape, np.int64), allow_pickle=False)
        np.save(stream, flat.reshape(-1).view(np.uint8), allow_pickle=False)


def read_array(file: Path) -> Any:
    """Read what `write_array` wrote."""
    with file.open("rb") as stream:
        dtype = str(np.load(stream, allow_pickle=False)[0])
        shape = tuple(np.load(stream, allow_pickle=False).tolist())
        words = np.load(stream, allow_pickle=False)
    return words.view(jax.numpy.dtype(dtype)).reshape(shape)
