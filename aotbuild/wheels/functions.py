"""The functions of several wheels: joined, or why they cannot be."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from aotbuild.build.assemble import join_functions
from aotbuild.format.canonical import canonical_json
from aotbuild.format.padding import Padding
from aotbuild.format.record import Record
from aotbuild.format.signature import Function
from aotbuild.format.trace import other_setting
from aotbuild.wheels.whole import Whole

# Fields of a function that all wheels must agree on, and what the manifest calls them.
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
}


def join(wholes: Sequence[Whole], records: Sequence[Record]) -> tuple[list[Function], list[str]]:
    """Return the functions of all packages, and the contradictions between them.

    A function may be in some of them only. `records` are those of the joined package.
    """
    # Only compiled functions know how calls are padded; the last of each name counts.
    every = [(whole, function) for whole in wholes for function in whole.wheel.functions]
    every.sort(key=lambda pair: pair[1].name not in pair[0].failed)
    joined = {f.name: f for f in join_functions(function for _, function in every)}
    problems: list[str] = []
    for name, function in joined.items():
        compiled = [(w, f) for w, f in every if f.name == name and name not in w.failed]
        problems += _differences(compiled)
        problems += _other_settings(name, wholes)
        pad, problem = _joined_padding(compiled, [r for r in records if r.function == name])
        problems += [f"function {name}: {problem}"] if problem else []
        joined[name] = replace(function, pad=pad)
    return list(joined.values()), problems


def partial_notes(wholes: Sequence[Whole]) -> Iterator[str]:
    """Yield a note for each function without executables for targets of packages that lack it."""
    targets: dict[str, set[str]] = {}
    for record in (record for whole in wholes for record in whole.records):
        if not record.target.is_portable:
            targets.setdefault(record.function, set()).add(str(record.target))
    for name in sorted({function.name for whole in wholes for function in whole.wheel.functions}):
        lacking = [w for w in wholes if name not in {f.name for f in w.wheel.functions}]
        others = {str(r.target) for w in lacking for r in w.records if not r.target.is_portable}
        missing = sorted(others - targets.get(name, set()))
        if missing:
            places = ", ".join(str(whole.path) for whole in lacking)
            yield f"function {name} has no executable for {', '.join(missing)}: not in {places}"


def _differences(compiled: Sequence[tuple[Whole, Function]]) -> Iterator[str]:
    """Yield how each function differs from the first of its name."""
    for whole, function in compiled[1:]:
        first = compiled[0][1]
        one, other = first.to_json(), function.to_json()
        for key, word in _SAME.items():
            if getattr(first, key) != getattr(function, key):
                expected, found = (canonical_json(f.get(key)).decode() for f in (one, other))
                yield (
                    f"{whole.path}: function {function.name}: {word}: "
                    f"expected {expected}, found {found}"
                )
                break
        yield from (f"{whole.path}: {reason}" for reason in _references(first, function))


def _other_settings(name: str, wholes: Sequence[Whole]) -> Iterator[str]:
    """Yield how packages differ in the `config:` and `env:` that a function was traced with."""
    found = [next((r for r in w.records if r.function == name), None) for w in wholes]
    made = [(whole.path, record) for whole, record in zip(wholes, found, strict=True) if record]
    for path, record in made[1:]:
        setting = other_setting(made[0][1], record)
        if setting is not None:
            yield f"{path}: function {name}: {setting}"


def _references(first: Function, function: Function) -> Iterator[str]:
    """Yield the places whose static data two wheels compare with that of different templates."""
    known = {tuple(place): like for *place, like in first.references}
    for *place, like in function.references:
        other = known.get(tuple(place), like)
        if other != like:
            yield f"function {function.name} compares {place[0]} with {like}, not with {other}"


def _joined_padding(
    compiled: Sequence[tuple[Whole, Function]], records: Iterable[Record]
) -> tuple[Padding | None, str | None]:
    """Return how calls of the joined function are padded, or why it cannot be said.

    A call is padded to the nearest size that any record has. So with different sizes, each target
    must have all of them.
    """
    pads = [function.pad for _, function in compiled]
    if len(set(pads)) <= 1:
        return pads[0] if pads else None, None
    if len({pad and (pad.dims, pad.leaves, pad.outputs) for pad in pads}) > 1:
        return None, "pad: the wheels pad it in different ways"
    known = [pad for pad in pads if pad is not None]
    buckets = sorted({bucket for pad in known for bucket in pad.buckets})
    signatures: dict[tuple[str, str | None], set[str]] = {}
    for record in records:
        if not record.target.is_portable:
            key = (str(record.target), record.requires.jaxlib)
            signatures.setdefault(key, set()).add(record.signature.key())
    if len({frozenset(keys) for keys in signatures.values()}) > 1:
        dims = ", ".join(dim.name for dim in known[0].dims)
        targets = ", ".join(sorted({target for target, _ in signatures}))
        return None, (
            f"pad: {dims} has the sizes {_sizes(known)}; a call is padded to the nearest one, "
            f"which not all of {targets} would have"
        )
    return replace(known[0], buckets=tuple(buckets)), None


def _sizes(pads: Iterable[Padding]) -> str:
    texts = (", ".join("x".join(map(str, bucket)) for bucket in pad.buckets) for pad in pads)
    return " and ".join(f"[{text}]" for text in dict.fromkeys(texts))
