"""Call every function of gpu_probe in this fresh process, and print what happened as JSON.

    python probe.py aot [FOLDER]     by the executables of the installed package, or of a folder
    python probe.py jit              by jax.jit of the source, which compiles here

Times are in seconds. `compilations` counts jax's own compile events while the functions are called.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

STARTED = time.perf_counter()

import jax  # noqa: E402 (the import is part of what is timed)
import numpy as np  # noqa: E402

import aotbuild  # noqa: E402

SHAPES: dict[str, list[tuple[str, tuple[int, ...]]]] = {
    "attend": [("bfloat16", (8, 1024, 16, 64))],
    "layer": [("float32", (64, 1024)), ("float32", (1024, 4096)), ("float32", (4096, 1024))],
    "conv": [("bfloat16", (8, 64, 64, 64)), ("bfloat16", (3, 3, 64, 64))],
    "values": [("float32", (256, 256))],
    "order": [("float32", (1048576,))],
}
CALLS = 50


def arguments(name: str) -> list[Any]:
    """Return the same arguments in every process."""
    numbers = np.random.default_rng(sum(map(ord, name)))
    made = [numbers.standard_normal(shape).astype(dtype) / 8 for dtype, shape in SHAPES[name]]
    return [jax.device_put(array) for array in made]


def functions(how: str, folder: str | None) -> dict[str, Callable[..., Any]]:
    """Return what is called, by name."""
    if how == "jit":
        from gpu_probe import model

        return {name: jax.jit(getattr(model, name)) for name in SHAPES}
    library = aotbuild.load(folder or "gpu_probe")
    return {name: getattr(library, name) for name in SHAPES if name in library.functions}


def warm(function: Callable[..., Any], given: list[Any]) -> float:
    """Return the median time of a call with its result."""
    times = []
    for _ in range(CALLS):
        start = time.perf_counter()
        jax.block_until_ready(function(*given))
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def samples(result: Any) -> list[float]:
    """Return some numbers of a result: enough to compare, and few enough to print."""
    found: list[float] = np.asarray(result, np.float32).ravel()[::997].tolist()
    return found


def main() -> None:
    how, folder = sys.argv[1], (sys.argv[2] if len(sys.argv) > 2 else None)
    events: list[str] = []
    found = functions(how, folder)
    given = {name: arguments(name) for name in found}
    jax.block_until_ready(given)
    # Placing the arguments may compile; what counts is what the calls do.
    listener = jax.monitoring.register_event_duration_secs_listener
    listener(lambda name, *_, **__: events.append(name))
    results, first = {}, None
    for name, function in found.items():
        results[name] = jax.block_until_ready(function(*given[name]))
        first = first or time.perf_counter() - STARTED
    compilations = sum("backend_compile" in event for event in events)
    document = {
        "device_kind": jax.devices()[0].device_kind,
        "compilations": compilations,
        "first_result": first,
        "all_results": time.perf_counter() - STARTED,
        "warm": {name: warm(function, given[name]) for name, function in found.items()},
        "results": {
            n: np.asarray(r, np.float32).ravel()[::997].tolist() for n, r in results.items()
        },
    }
    print(json.dumps(document))


if __name__ == "__main__":
    main()
