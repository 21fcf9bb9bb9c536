"""Measure one executable in a fresh process, where nothing is warm.

`worker/start.py` runs it. The second argument is JSON: {"executable": file, "inputs": [file…],
"donated": [index…], "x64": bool, "outputs": folder or null}. Prints {"load": ms, "first": ms,
"steady": ms} as the last line. Inputs and outputs are .npy files of raw words, see `measure`.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import jax

from aotbuild.format.target import HOST
from aotbuild.worker import private as jax_private
from aotbuild.worker.tuning.measure import read_array, write_array

# Calls for the steady state after the first one; none begins after this many seconds.
_CALLS = 15
_SECONDS = 2.0


def main() -> None:
    """Load an executable, call it, call it again, and print how long each took."""
    given = json.loads(sys.argv[2])
    jax.config.update("jax_enable_x64", given["x64"])
    device = jax.devices(HOST)[0]
    arrays = [read_array(Path(file)) for file in given["inputs"]]
    data = Path(given["executable"]).read_bytes()
    jax_private.prepare_custom_calls(data)
    executable, load = _timed(lambda: jax_private.load_executable(data, device))
    inputs = jax.block_until_ready([jax.device_put(array, device) for array in arrays])

    def call() -> Any:
        # Donated inputs are gone after each call.
        for index in given["donated"]:
            inputs[index] = jax.block_until_ready(jax.device_put(arrays[index], device))
        return _timed(lambda: jax_private.run_executable(executable, inputs))

    outputs, first = call()
    if given["outputs"]:
        for index, output in enumerate(outputs):
            write_array(Path(given["outputs"], f"{index}.npy"), output)
    print(json.dumps({"load": load, "first": first, "steady": _steady(call)}))  # noqa: T201


def _steady(call: Callable[[], Any]) -> float:
    times: list[float] = []
    end = time.perf_counter() + _SECONDS
    while len(times) < _CALLS and (not times or time.perf_counter() < end):
        times.append(call()[1])
    return median(times)


def _timed(work: Callable[[], Any]) -> tuple[Any, float]:
    """Return what `work` returns, and how long it took in milliseconds."""
    start = time.perf_counter()
    result = work()
    return result, (time.perf_counter() - start) * 1e3
