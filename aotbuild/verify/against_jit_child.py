"""The child process of `verify --against-jit`: a function at one signature, beside its source.

It is asked what `Job.to_json` returns, and answers with one of

    {"lines": […], "error": …, "aot": seconds, "jit": seconds, "target": …}
    {"refused": reason}     nothing to compare with, or no memory for both
    {"failed": reason}      the executable raised

`lines` are the differences, `error` the largest one as a multiple of its tolerance, null if that is
no finite number. `target` is that of the executable that the library chose.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from math import isfinite
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import jax

from aotbuild.errors import AotbuildError
from aotbuild.format.golden import digest_of, is_exact, sample_indices
from aotbuild.format.identity import NAMED
from aotbuild.format.record import Record
from aotbuild.format.signature import Function
from aotbuild.format.tree import TreeRefused
from aotbuild.format.values import decode
from aotbuild.runtime.api import load, locate
from aotbuild.runtime.binding import restore
from aotbuild.runtime.checked_blobs import Source, open_index
from aotbuild.runtime.devices import devices_for
from aotbuild.runtime.jax import private
from aotbuild.runtime.jax.backend import JaxTrees
from aotbuild.runtime.jax.placement import default_devices, leaf_shardings
from aotbuild.runtime.named_objects import import_named
from aotbuild.verify.child import begin, find
from aotbuild.verify.golden_outputs import Wanted, compare, golden_leaves
from aotbuild.verify.load_with_jax import as_numpy

# Elements that are compared of one result, at most; of integers without floats, all.
_ELEMENTS = 1 << 20
# Seconds of one turn, in which calls are queued before the wait, and the most of them.
_TURN, _MOST_CALLS = 0.02, 100
# Seconds of all turns: at least of five, unless they take long; and the most turns.
_SECONDS, _FEWEST, _LONG, _MOST = 2.0, 5, 30.0, 100
_NO_MEMORY = "RESOURCE_EXHAUSTED"

Arguments = tuple[list[Any], dict[str, Any]]


def main() -> None:
    """Compare one function at one signature, and exit without running destructors."""
    job, send = begin()
    send(_answer(job))
    os._exit(0)


def _answer(job: dict[str, Any]) -> dict[str, Any]:
    source = locate(Path(job["place"]))
    record = find(source, job)
    function = open_index(source).function(record.function)
    assert function is not None
    try:
        jitted, arguments = _source_of(source, record, function)
    except (AotbuildError, ImportError) as err:
        return {"refused": str(err)}
    library: Any = load(job["place"])
    args, kwargs = arguments()
    explained = library.explain(record.function, *args, **kwargs)
    if explained.error is not None:
        return {"refused": f"no call is found for its signature: {explained.error}"}
    kernel = getattr(library, record.function)
    try:
        want = _results(jitted, arguments)
    except Exception as err:  # noqa: BLE001 (the user's code, and XLA, may raise anything)
        return {"refused": f"the source under jax.jit raised {type(err).__name__}: {err}"}
    try:
        have = _results(kernel, arguments)
    except Exception as err:  # noqa: BLE001 (as above)
        which = "refused" if _NO_MEMORY in str(err) else "failed"
        return {which: f"calling it raised {type(err).__name__}: {err}"}
    lines, error = _compared(explained.chosen, have, want)
    aot, jit = _times(kernel, jitted, arguments, may_queue=not record.calling.donated)
    return {
        "lines": lines,
        "error": error if isfinite(error) else None,
        "aot": aot,
        "jit": jit,
        "target": str(explained.chosen.target),
    }


def _source_of(
    source: Source, record: Record, function: Function
) -> tuple[Callable[..., Any], Callable[[], Arguments]]:
    """Return the source under `jax.jit`, and what makes the arguments of a call.

    AotbuildError says why there is none here.
    """
    if function.wrap:
        msg = f"its source is under {function.wrap}, whose objects no record describes"
        raise AotbuildError(msg)
    try:
        called = import_named(function.call)
    except Exception as err:  # the user's modules may raise anything
        msg = f"{function.call} cannot be imported here: {type(err).__name__}: {err}"
        raise AotbuildError(msg) from err
    arguments = _arguments(source, record, function)
    config = record.provenance.get("config")
    for name, value in config.items() if isinstance(config, dict) else ():
        jax.config.update(name, value)
    names = [static.name for static in function.statics]
    return jax.jit(called, static_argnames=names, donate_argnames=function.donate), arguments


def _arguments(source: Source, record: Record, function: Function) -> Callable[[], Arguments]:
    """Return what makes the arguments of a call; only those that are donated are made anew."""
    try:
        treedef = restore(record.signature.tree, None, JaxTrees(), "signature.tree", "an argument")
    except (AotbuildError, TreeRefused, ValueError) as err:
        msg = f"its arguments cannot be made from the record alone: {err}"
        raise AotbuildError(msg) from err
    statics = {name: decode(value, NAMED) for name, value in record.signature.statics}
    shardings = leaf_shardings(
        record, devices_for(record.requires, default_devices(record.target.platform))
    )
    avals, donated = record.signature.leaves, set(record.calling.donated)
    leaves = list(golden_leaves(source, record, private.physical_shape))

    def placed(index: int) -> Any:
        if avals[index].weak_type and not avals[index].shape:
            return leaves[index].item()  # as a number of Python
        return private.put(leaves[index], avals[index], shardings[index])

    kept = {index: placed(index) for index in range(len(avals)) if index not in donated}

    def make() -> Arguments:
        every = [kept[at] if at in kept else placed(at) for at in range(len(avals))]
        args, kwargs = jax.tree_util.tree_unflatten(treedef, jax.block_until_ready(every))
        values = {**dict(zip(function.dynamic, args, strict=True)), **kwargs, **statics}
        return [values.pop(name) for name in function.positional if name in values], values

    return make


def _results(call: Callable[..., Any], arguments: Callable[[], Arguments]) -> list[Any]:
    args, kwargs = arguments()
    return [as_numpy(output) for output in jax.tree.leaves(call(*args, **kwargs))]


def _compared(record: Record, have: list[Any], want: list[Any]) -> tuple[list[str], float]:
    shapes, expected = ([(a.shape, str(a.dtype)) for a in each] for each in (have, want))
    if shapes != expected:
        return [f"it returned {shapes}, jax.jit {expected}"], float("inf")
    wanted = []
    for array in want:
        indices = sample_indices(array.size, _ELEMENTS)
        is_whole = not record.provenance.get("floats") and is_exact(str(array.dtype))
        digest = digest_of(array) if is_whole else None
        wanted.append(Wanted(array.reshape(-1)[indices], indices, digest))
    return compare(record, have, wanted, record.target.platform)


def _times(
    aot: Callable[..., Any],
    jit: Callable[..., Any],
    arguments: Callable[[], Arguments],
    *,
    may_queue: bool,
) -> tuple[float, float]:
    """Return the median seconds of a warm call of both, which are called in turns."""
    calls = 1

    def turn(call: Callable[..., Any]) -> float:
        args, kwargs = arguments()
        start = perf_counter()
        for _ in range(calls):
            outputs = call(*args, **kwargs)
        jax.block_until_ready(outputs)
        return (perf_counter() - start) / calls

    start = perf_counter()
    found = [(turn(aot), turn(jit))]
    if may_queue:
        calls = max(1, min(_MOST_CALLS, int(_TURN / max(found[0]))))
    while len(found) < _MOST:
        if perf_counter() - start > (_SECONDS if len(found) >= _FEWEST else _LONG):
            break
        if len(found) % 2:  # neither always runs after the other
            second = turn(jit)
            found.append((turn(aot), second))
        else:
            found.append((turn(aot), turn(jit)))
    return median(pair[0] for pair in found), median(pair[1] for pair in found)
