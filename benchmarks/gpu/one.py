"""Call one function in this fresh process, and print what happened as JSON.

    python one.py FOLDER NAME HOW STARTED [first]

HOW is `reference` (compute right results and keep them in FOLDER), `jit`, or the folder of
executables that is called, `untuned` or `tuned`, with `-numpy` for the backend without jax. STARTED
is the parent's monotonic clock as it started this process. With `first`, nothing is called twice.
"""

from __future__ import annotations

import importlib
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from gpu_bench.cases import CASES, Case, arguments, flat, map_leaves

ROUNDS = 7
# Calls are queued for so long before their results are awaited.
QUEUED_SECONDS, MOST_QUEUED = 0.1, 200


def main() -> None:
    folder, (name, how, started) = Path(sys.argv[1]), sys.argv[2:5]
    plan = json.loads((folder / "functions.json").read_text(encoding="utf-8"))
    case, function = CASES[name], plan["functions"][name]
    begin = time.perf_counter()
    given = arguments(name, small=plan["small"])
    made = time.perf_counter() - begin
    kept = folder / "references" / f"{name}.npz"
    if how == "reference":
        kept.parent.mkdir(exist_ok=True)
        results = reference(case, function, given)
        np.savez(kept, *[np.asarray(leaf) for leaf in flat(results)])
        print(json.dumps({}))
        return
    found: dict[str, Any] = {}
    if how.endswith("-numpy"):
        call = executable(folder, name, how.removesuffix("-numpy"), function, arrays="numpy")
        first = call(*given)
        if "jax" in sys.modules:
            msg = "the process without jax imported jax"
            raise RuntimeError(msg)
        found["start"] = time.perf_counter() - float(started) - made
    else:
        import jax  # not in a process of the numpy backend

        events: list[str] = []
        jax.monitoring.register_event_duration_secs_listener(
            lambda event, _seconds, **_: events.append(event)
        )
        call = jitted(function) if how == "jit" else executable(folder, name, how, function)
        given = jax.block_until_ready(jax.device_put(given))
        events.clear()
        begin = time.perf_counter()
        first = jax.block_until_ready(call(*given))
        found["first"] = time.perf_counter() - begin
        found["start"] = time.perf_counter() - float(started) - made
        found["device"] = jax.devices()[0].device_kind
    # Before the next call, which may use up the buffers of this result.
    results = map_leaves(np.asarray, first)
    if sys.argv[5:] != ["first"]:
        found["warm"] = warm(call, given, first, case)
    if "first" in found:
        found["compilations"] = sum("backend_compile" in event for event in events)
    found.update(difference(case.seen(map_leaves(wide, results)), kept, results))
    print(json.dumps(found))


def executable(
    folder: Path, name: str, how: str, function: dict[str, Any], arrays: Any = "jax"
) -> Callable[..., Any]:
    """Return the function as it was built."""
    import aotbuild  # what jit needs no more than its users do

    return aotbuild.load(folder / how / function["manifest"] / "_aot", arrays=arrays).kernel(name)


def jitted(function: dict[str, Any]) -> Callable[..., Any]:
    """Return the source under jit."""
    import jax

    module, _, attribute = function["call"].partition(":")
    source = getattr(importlib.import_module(module), attribute)
    return jax.jit(source, donate_argnames=function["donate"])


def reference(case: Case, function: dict[str, Any], given: tuple[Any, ...]) -> Any:
    """Return right results: by numpy in 64 bits, or by jit on the CPU with floats of 32."""
    if case.reference is not None:
        return case.reference(*map_leaves(wide, given))
    return case.seen(jitted({**function, "donate": []})(*map_leaves(single, given)))


def wide(array: Any) -> Any:
    """Return an array as float64, complex128 or int64."""
    kind = array.dtype.kind
    return array.astype({"c": np.complex128, "i": np.int64, "u": np.uint64}.get(kind, np.float64))


def single(array: Any) -> Any:
    """Return an array with floats as float32."""
    return array if array.dtype.kind in "ciu" else array.astype(np.float32)


def warm(call: Callable[..., Any], given: Any, result: Any, case: Case) -> float:
    """Return the median seconds of a call, of calls that are queued and awaited together."""
    import jax

    feed = case.feed or (lambda given, _: given)

    def calls(count: int) -> float:
        nonlocal given, result
        begin = time.perf_counter()
        for _ in range(count):
            given = feed(given, result)
            result = call(*given)
        jax.block_until_ready(result)
        return (time.perf_counter() - begin) / count

    calls(2)
    count = max(2, min(MOST_QUEUED, int(QUEUED_SECONDS / calls(3))))
    return statistics.median(calls(count) for _ in range(ROUNDS))


def difference(seen: Any, kept: Path, results: Any) -> dict[str, Any]:
    """Return how far results are from the right ones.

    `error` is the largest difference as a share of the largest right number, and `wrong` the number
    of integers that differ.
    """
    error, wrong = 0.0, 0
    integers = {x.shape for x in flat(results) if x.dtype.kind in "iu"}
    with np.load(kept) as archive:
        pairs = list(zip(flat(seen), archive.values(), strict=True))
    for found, right in pairs:
        if found.shape != right.shape:
            msg = f"a result has shape {found.shape}, expected {right.shape}"
            raise ValueError(msg)
        if right.dtype.kind in "iu" and found.shape in integers:
            wrong += int((found != right).sum())
        elif right.size:
            largest = float(np.abs(right).max()) or 1.0
            apart = float(np.abs(found - right).max())
            # NaN is no number of JSON.
            error = max(error, apart / largest if np.isfinite(apart) else 1e30)
    return {"error": error, "wrong": wrong}


if __name__ == "__main__":
    try:
        main()
    except Exception as err:  # noqa: BLE001 - whatever it is costs one row of the table
        said = f"{type(err).__name__}: {' '.join(str(err).split())}"
        print(json.dumps({"failed": said[:400]}))
