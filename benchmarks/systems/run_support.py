"""What every measured process does alike: options, marks of time, saving, more calls.

Imports little, because its own time is in every measurement. Marks are of the monotonic clock,
which parent and child share, so that the parent knows what passed before Python ran.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any

# `--name value` pairs; argparse would cost each process 6 ms.
OPTIONS = dict(zip(sys.argv[1::2], sys.argv[2::2], strict=True))

_MARKS: list[tuple[str, float]] = [("python", perf_counter())]


def mark(stage: str) -> None:
    """Say that a stage ended now."""
    _MARKS.append((stage, perf_counter()))


def read_arrays(option: str) -> dict[str, Any]:
    """Return the arrays of the .npz that an option names, in its order."""
    import numpy as np

    with np.load(OPTIONS[option]) as archive:
        return dict(archive)


def finish(call: Callable[[], Sequence[Any]]) -> None:
    """Call once, save the outputs, make `--calls` more, and print marks and times as JSON.

    `call` does one whole call, from numpy arrays to a sequence of numpy arrays.
    """
    outputs = call()
    mark("first call")
    if "--out" in OPTIONS:
        _save(outputs)
    times = [_time(call) for _ in range(int(OPTIONS.get("--calls", "0")))]
    _print(times)


def finish_without_result() -> None:
    """Print the marks of a process that calls nothing."""
    _print([])


def _save(outputs: Sequence[Any]) -> None:
    """Save all outputs as one flat f32 array."""
    import numpy as np

    flat = [np.asarray(output, dtype=np.float32).ravel() for output in outputs]
    np.save(OPTIONS["--out"], np.concatenate(flat))


def _time(call: Callable[[], Any]) -> float:
    start = perf_counter()
    call()
    return perf_counter() - start


def _print(times: list[float]) -> None:
    marks = ", ".join(f'["{stage}", {when!r}]' for stage, when in _MARKS)
    print(f'{{"marks": [{marks}], "calls": {times!r}, "peak_kb": {_peak_kb()}}}', flush=True)


def _peak_kb() -> int:
    """Return the most memory that this process had; 0 where the system does not say.

    What wait4 tells the parent counts the parent's own memory, from before exec.
    """
    try:
        with open("/proc/self/status") as status:  # noqa: PTH123 - pathlib is not imported yet
            return int(next(line.split()[1] for line in status if line.startswith("VmHWM:")))
    except OSError:
        return 0
