"""Whether packages of several builds have one program for each signature, by golden outputs.

One build traces again what differs (`build.agreement`). Here nothing can be traced. But equal
functions return the same for golden inputs, within the tolerances of `verify`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from aotbuild.format.canonical import sha256_hex
from aotbuild.format.golden import Tolerance, default_tolerance, near, numpy_dtype, widened
from aotbuild.format.record import Blob, Record
from aotbuild.format.target import HOST
from aotbuild.format.tensors import read_tensors
from aotbuild.format.trace import CONSTANTS, difference

_CAUSE = (
    "a module probably draws random numbers or reads a clock while it is imported; seed it, load "
    "the value from a file, or pass it as an argument. One build of all targets traces them again, "
    "and takes what depends on the target alone"
)
_UNTOLD = (
    "without golden outputs nothing tells whether their results differ, too; build these targets "
    "in one build, which traces them again, or with verify: {golden: always}"
)


@dataclass(frozen=True)
class Built:
    """What one build made: where it is, its records, and what reads one of its files by name."""

    place: str
    records: Sequence[Record]
    read: Callable[[str], bytes]


def disagreements(builds: Sequence[Built]) -> Iterator[str]:
    """Yield why executables of one signature, made by different builds, cannot be together."""
    found: dict[tuple[str, str], list[tuple[Built, Record]]] = {}
    for built in builds:
        for record in built.records:
            found.setdefault((record.function, record.signature.key()), []).append((built, record))
    for group in found.values():
        problems = (_problem(*one, *other) for one, other in combinations(group, 2))
        yield from [problem for problem in problems if problem][:1]


def _problem(here: Built, one: Record, there: Built, other: Record) -> str:
    part = difference(one, other) if here is not there else None
    if part is None:
        return ""
    same = _same_outputs(here, one, there, other)
    if same or (same is None and part != CONSTANTS):
        return ""
    units = f"{one} in {here.place} and {other} in {there.place}"
    if same is None:
        return f"{units} have different constants, and {_UNTOLD}"
    return f"{units} were traced to different programs, whose golden outputs differ: {_CAUSE}"


def _same_outputs(here: Built, one: Record, there: Built, other: Record) -> bool | None:
    """Return whether golden outputs are the same, within tolerances; None if there are none."""
    if one.golden is None or other.golden is None:
        return None
    blobs = one.golden.outputs, other.golden.outputs
    if blobs[0] == blobs[1]:
        return True
    stated = one.provenance.get("floats")
    floats = tuple(map(str, stated)) if isinstance(stated, list) else ()
    tolerance = Tolerance(HOST, floats, one.golden.rtol, one.golden.atol)
    # One over symbolic dims does not state them.
    outputs = one.calling.outputs or other.calling.outputs
    dtypes = {str(index): aval.dtype for index, aval in enumerate(outputs)}
    first, second = (_samples(b, blob) for b, blob in zip((here, there), blobs, strict=True))
    if first.keys() != second.keys():
        return False
    return all(_near(first[name], second[name], dtypes.get(name, ""), tolerance) for name in first)


def _samples(built: Built, blob: Blob) -> dict[str, bytes]:
    """Return the bytes of the samples of each output; none of them if they cannot be read."""
    try:
        data = built.read(blob.path)
        tensors = read_tensors(data)
    except (OSError, KeyError, ValueError):
        return {}
    is_whole = sha256_hex(data) == blob.sha256
    return {n: data[t.begin : t.end] for n, t in tensors.items()} if is_whole else {}


def _near(want: bytes, have: bytes, dtype: str, tolerance: Tolerance) -> bool:
    if want == have:
        return True
    if len(want) != len(have) or not default_tolerance(dtype, HOST):
        return False
    import numpy as np

    try:
        one, other = (widened(np.frombuffer(data, numpy_dtype(dtype))) for data in (want, have))
    except ValueError:  # not of that dtype
        return False
    is_near: Any = near(one, other, tolerance.bound(one, dtype))
    return bool(is_near.all())
