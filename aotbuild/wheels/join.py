"""One index from those of several builds, and why they cannot be one. Nothing is written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

from packaging.version import InvalidVersion, Version

from aotbuild.build.assemble import identity_of, join_functions
from aotbuild.format.canonical import canonical_json
from aotbuild.format.golden import SPREAD, Tolerance, default_tolerance, near, numpy_dtype, widened
from aotbuild.format.record import Record
from aotbuild.format.record_json import record_to_json
from aotbuild.format.signature import Function
from aotbuild.format.target import HOST
from aotbuild.format.tensors import read_tensors
from aotbuild.wheels.wheel_files import Built, NewFolder

_FALLBACK = "fallback"
# Header entries that are joined; all others must be equal.
_VERSIONS = ("aotbuild", "jax", "jaxlib")
# Fields of a function that all builds must agree on, and what the manifest calls them.
_SAME = {
    "call": "call",
    "positional": "args",
    "dynamic": "args",
    "keywords": "kwargs",
    "statics": "static",
    "donate": "donate",
    "wrap": "wrap",
    "ignored": "static_data",
    "optional": "signatures",
    "pad": "pad",
}
_CAUSE = (
    "a module probably draws random numbers or reads a clock while it is imported; seed it, load "
    "the value from a file, or pass it as an argument"
)


def join(builds: Sequence[Built], fallback: str | None = None) -> tuple[NewFolder, list[str]]:
    """Return the joined `_aot` folder of several builds, and the contradictions between them.

    `fallback` replaces that of the headers.
    """
    records, problems = unite([built.records for built in builds])
    header, contradictions = _joined_header(builds, fallback)
    functions, unlike = _joined_functions(builds)
    problems = [*unlike, *contradictions, *problems, *_other_outputs(builds)]
    return NewFolder(header, functions, records, builds), problems


def unite(groups: Iterable[Sequence[Record]]) -> tuple[list[Record], list[str]]:
    """Return the records of all groups, and the contradictions between them.

    Equal executables are kept once. Of equal portable artifacts the one made by the oldest jax is
    kept, which newer versions read; a build with several toolchains does the same.
    """
    united: dict[tuple[str, ...], Record] = {}
    problems = []
    for record in (record for group in groups for record in group):
        key = identity_of(record)
        other = united.setdefault(key, record)
        chosen = _choose(other, record)
        if chosen is None:
            blobs = f"{other.blob.sha256[:12]} and {record.blob.sha256[:12]}"
            problems.append(f"{record}: two executables for the same call and target: {blobs}")
        else:
            united[key] = chosen
    return list(united.values()), problems


def _choose(one: Record, other: Record) -> Record | None:
    """Return which of two records with one key to keep; None if they contradict each other."""
    if one.target.is_portable and _jax_of(one) != _jax_of(other):
        return min(one, other, key=_jax_of)
    same = (one.blob, one.requires, one.calling) == (other.blob, other.requires, other.calling)
    # They differ in measurements or notes at most; the choice must not depend on the order.
    return min(one, other, key=lambda r: canonical_json(record_to_json(r))) if same else None


def _jax_of(record: Record) -> Version:
    return _version(str(record.provenance.get("jax", "")))


def _joined_header(
    builds: Sequence[Built], fallback: str | None
) -> tuple[dict[str, Any], list[str]]:
    """Return the joined header, and the contradictions between the headers."""
    chosen = {} if fallback is None else {_FALLBACK: fallback}
    headers: list[Mapping[str, Any]] = [{**built.header, **chosen} for built in builds]
    joined: dict[str, Any] = {}
    problems = []
    for key in sorted({key for header in headers for key in header}):
        values = [header[key] for header in headers if key in header]
        if key in _VERSIONS:
            versions = {v for value in values for v in str(value).split(", ") if v}
            joined[key] = ", ".join(sorted(versions, key=lambda v: (_version(v), v)))
        elif any(value != values[0] for value in values):
            shown = " and ".join(sorted({repr(value) for value in values}))
            remedy = f"; choose with --{key}" if key == _FALLBACK else ""
            problems.append(f"the indexes differ in {key}: {shown}{remedy}")
        else:
            joined[key] = values[0]
    return joined, problems


def _version(text: str) -> Version:
    try:
        return Version(text)
    except InvalidVersion:
        return Version("0")


def _joined_functions(builds: Sequence[Built]) -> tuple[list[Function], list[str]]:
    """Return the functions of all builds, and how those of one name differ.

    A function may be in some builds only. Where all units of one failed, it says less.
    """
    problems: list[str] = []
    compiled: dict[str, tuple[Built, Function]] = {}
    failed: list[Function] = []
    found: list[Function] = []
    for built in builds:
        called = {record.function: record for record in built.records}
        for function in built.functions:
            if function.name not in called:
                failed.append(function)
                continue
            found.append(function)
            first_built, first = compiled.setdefault(function.name, (built, function))
            problems += _differences(built, function, first)
            record = next(r for r in first_built.records if r.function == function.name)
            if setting := _other_setting(record, called[function.name]):
                problems.append(f"{built.place}: function {function.name}: {setting}")
    return join_functions([*failed, *found]), problems


def _other_setting(one: Record, other: Record) -> str | None:
    """Return which setting of a function differs between two of its records; None if none does.

    A version of jax may lack an option that another one has: those that both have are compared.
    """
    if one.provenance.get("env") != other.provenance.get("env"):
        return "env: other variables or values"
    here, there = (record.provenance.get("config", {}) for record in (one, other))
    for name in sorted(here.keys() & there.keys()):
        if here[name] != there[name]:
            expected, found = (canonical_json(each[name]).decode() for each in (here, there))
            return f"config: {name}: expected {expected}, found {found}"
    return None


def _differences(built: Built, function: Function, first: Function) -> Iterator[str]:
    """Yield how a function differs from the first of its name."""
    one, other = first.to_json(), function.to_json()
    for key, word in _SAME.items():
        if getattr(first, key) != getattr(function, key):
            expected, found = (canonical_json(f.get(key)).decode() for f in (one, other))
            yield (
                f"{built.place}: function {function.name}: {word}: expected {expected}, "
                f"found {found}"
            )
            return
    known = {tuple(place): like for *place, like in first.references}
    for *place, like in function.references:
        template = known.get(tuple(place), like)
        if template != like:
            yield (
                f"{built.place}: function {function.name} compares {place[0]} with {like}, not "
                f"with {template}"
            )


def _other_outputs(builds: Sequence[Built]) -> Iterator[str]:
    """Yield the signatures that functions of two builds do not return the same for.

    Executables for several targets are of one program. One build traces that once; here golden
    outputs, which are for equal inputs, tell whether the builds traced different ones.
    """
    found: dict[tuple[str, str], dict[str, tuple[Built, Record]]] = {}
    for built in builds:
        for record in built.records:
            if record.golden is not None:
                group = found.setdefault((record.function, record.signature.key()), {})
                group.setdefault(built.place, (built, record))
    for group in found.values():
        for (here, one), (there, other) in combinations(group.values(), 2):
            if not _same_outputs(here, one, there, other):
                yield (
                    f"{one} in {here.place} and {other} in {there.place} return different golden "
                    f"outputs: {_CAUSE}"
                )
                break


def _same_outputs(here: Built, one: Record, there: Built, other: Record) -> bool:
    assert one.golden is not None, "only records with golden outputs are compared"
    assert other.golden is not None, "only records with golden outputs are compared"
    if one.golden.inputs != other.golden.inputs or one.golden.outputs == other.golden.outputs:
        return True
    stated = one.provenance.get("floats")
    floats = tuple(map(str, stated)) if isinstance(stated, list) else ()
    tolerance = Tolerance(HOST, floats, one.golden.rtol, one.golden.atol)
    # A record over symbolic dims does not state them.
    outputs = one.calling.outputs or other.calling.outputs
    dtypes = {str(index): aval.dtype for index, aval in enumerate(outputs)}
    pair = tuple(
        _samples(built.read(golden.outputs.path))
        for built, golden in ((here, one.golden), (there, other.golden))
    )
    names = [{name for name in each if SPREAD not in name} for each in pair]
    return names[0] == names[1] and all(
        _near(pair, name, dtypes.get(name, ""), tolerance) for name in names[0]
    )


def _samples(data: bytes) -> dict[str, bytes]:
    return {name: data[t.begin : t.end] for name, t in read_tensors(data).items()}


def _near(pair: Sequence[dict[str, bytes]], name: str, dtype: str, tolerance: Tolerance) -> bool:
    want, have = (each[name] for each in pair)
    if want == have:
        return True
    if len(want) != len(have) or not default_tolerance(dtype, HOST):
        return False
    import numpy as np  # slow, and only this needs it

    one, other = (widened(np.frombuffer(data, numpy_dtype(dtype))) for data in (want, have))
    moved = np.frombuffer(pair[0].get(f"{name}{SPREAD}", bytes(8)))
    is_near: Any = near(one, other, tolerance.bound(one, dtype, float(moved.sum())))
    return bool(is_near.all())
