"""What changed between two packages: functions, signatures, targets, sizes, cost, requirements.

Two signatures match if their keys are equal. Failing that, they match if the manifest gives them
one label; then the inputs changed. Executables are compared for equal targets of equal signatures.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from aotbuild.format.record import Record
from aotbuild.report.document import (
    HEADER_NAMES,
    pad_text,
    parameters,
    requirements_document,
)
from aotbuild.report.facts import (
    FunctionFacts,
    PackageFacts,
    SignatureFacts,
    compared_places,
    provenance_items,
    targets,
    total_size,
)
from aotbuild.report.words import (
    bytes_accessed,
    flops,
    memory_of_device,
    peak_memory,
    plain,
)

# Fields of `Changed.fields` that are numbers, in the order they are shown.
NUMBERS = ("size", "flops", "bytes_accessed", "peak_memory")


@dataclass(frozen=True)
class Field:
    """One fact that was `old` and is `new`, both as JSON."""

    name: str
    old: Any
    new: Any


@dataclass(frozen=True)
class Unit:
    """An executable by name: function, signature as the manifest writes it, target."""

    function: str
    signature: str
    target: str


@dataclass(frozen=True)
class Changed:
    """Something that both packages have and that differs; `what` names a function or a Unit."""

    what: Unit
    fields: tuple[Field, ...]


@dataclass(frozen=True)
class Sides:
    """Names that only the new package has, and names that only the old one has."""

    gained: tuple[Any, ...]
    lost: tuple[Any, ...]


@dataclass(frozen=True)
class Diff:
    """All differences of two packages.

    The Unit of a function or a signature leaves the other names empty.
    """

    package: tuple[Field, ...]
    functions: Sides
    functions_changed: tuple[Changed, ...]
    signatures: Sides
    signatures_changed: tuple[Changed, ...]
    targets: Sides
    executables: Sides
    executables_changed: tuple[Changed, ...]

    @property
    def is_empty(self) -> bool:
        """Whether nothing differs."""
        changed = (self.functions_changed, self.signatures_changed, self.executables_changed)
        sides = (self.functions, self.signatures, self.targets, self.executables)
        return not (self.package or any(changed) or any(s.gained or s.lost for s in sides))


def diff(old: PackageFacts, new: PackageFacts) -> Diff:
    """Return what changed from `old` to `new`. The places of the packages are not compared."""
    functions = _both(_by_name(old), _by_name(new))
    signatures = [pair for before, after in functions for pair in _pairs(before, after)]
    kept = [(before, after) for before, after in signatures if before and after]
    return Diff(
        package=tuple(_fields(_package(old), _package(new))),
        functions=_sides(_by_name(old), _by_name(new)),
        functions_changed=tuple(_changed((_function(a), _function(b)) for a, b in functions)),
        signatures=Sides(
            tuple(_unit(after) for before, after in signatures if after and not before),
            tuple(_unit(before) for before, after in signatures if before and not after),
        ),
        signatures_changed=tuple(_changed((_signature(a), _signature(b)) for a, b in kept)),
        targets=_sides(targets(old), targets(new)),
        executables=_executables(kept),
        executables_changed=tuple(
            _changed(
                (_executable(name, old[name], before), _executable(name, new[name], after))
                for before, after in kept
                for old, new in [_by_target(before, after)]
                for name in old
                if name in new
            )
        ),
    )


_Described = tuple[Unit, dict[str, Any]]


def _changed(pairs: Iterable[tuple[_Described, _Described]]) -> Iterator[Changed]:
    for (_, old), (what, new) in pairs:
        fields = tuple(_fields(old, new))
        if fields:
            yield Changed(what, fields)


def _fields(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Field]:
    for name in dict.fromkeys((*old, *new)):
        before, after = old.get(name), new.get(name)
        if before != after:
            yield Field(name, before, after)


def _package(facts: PackageFacts) -> dict[str, Any]:
    header = {name: plain(facts.header.get(name)) for name in HEADER_NAMES}
    return {**header, "size": total_size(facts)}


def _function(facts: FunctionFacts) -> _Described:
    function = facts.function
    described = {
        "call": function.call,
        "parameters": parameters(function),
        "pad": pad_text(function),
        "ignored": [place for place, *_ in function.ignored],
        "compared": [" with ".join(pair.values()) for pair in compared_places(function)],
    }
    return Unit(facts.name, "", ""), described


def _signature(signature: SignatureFacts) -> _Described:
    described = {"inputs": list(signature.inputs), "outputs": list(signature.outputs)}
    return _unit(signature), described


def _executable(target: str, record: Record, signature: SignatureFacts) -> _Described:
    requires = requirements_document(record.requires)
    calls = record.requires.custom_calls
    requires["custom_calls"] = sorted(f"{call.target} ({call.provider})" for call in calls)
    requires["plugin"] = " ".join(record.requires.plugin or ()) or None
    described = {
        "size": record.blob.size,
        "flops": flops(record),
        "bytes_accessed": bytes_accessed(record),
        "peak_memory": peak_memory(record),
        "device_memory": memory_of_device(record),
        **{f"requires.{name}": value for name, value in requires.items()},
        "constants": sorted(c.blob.sha256 for c in record.calling.constants),
        **{f"provenance.{name}": plain(value) for name, value in provenance_items(record)},
        "sha256": record.blob.sha256,
    }
    return Unit(record.function, signature.label, target), described


def _executables(kept: list[tuple[SignatureFacts, SignatureFacts]]) -> Sides:
    """Return the executables that unchanged signatures gained and lost."""
    gained: list[Unit] = []
    lost: list[Unit] = []
    for before, after in kept:
        sides = _sides(*_by_target(before, after))
        function = after.records[0].function
        gained += [Unit(function, after.label, target) for target in sides.gained]
        lost += [Unit(function, before.label, target) for target in sides.lost]
    return Sides(tuple(gained), tuple(lost))


def _pairs(
    old: FunctionFacts, new: FunctionFacts
) -> Iterator[tuple[SignatureFacts | None, SignatureFacts | None]]:
    """Yield each signature of a function with its counterpart, or None."""
    before = {signature.key: signature for signature in old.signatures}
    after = {signature.key: signature for signature in new.signatures}
    yield from _both(before, after)
    gone = {s.label: s for key, s in before.items() if key not in after}
    come = {s.label: s for key, s in after.items() if key not in before}
    yield from _both(gone, come)
    matched = gone.keys() & come.keys()
    same = {id(s) for label in matched for s in (gone[label], come[label])}
    yield from ((s, None) for k, s in before.items() if k not in after and id(s) not in same)
    yield from ((None, s) for k, s in after.items() if k not in before and id(s) not in same)


def _unit(signature: SignatureFacts) -> Unit:
    return Unit(signature.records[0].function, signature.label, "")


def _by_name(facts: PackageFacts) -> dict[str, FunctionFacts]:
    return {function.name: function for function in facts.functions}


def _by_target(
    old: SignatureFacts, new: SignatureFacts
) -> tuple[dict[str, Record], dict[str, Record]]:
    """Return the records of both packages, by target.

    If a package has a target for several versions of jaxlib, every name includes the version.
    """
    several = any(len({r.target for r in s.records}) < len(s.records) for s in (old, new))
    before, after = ({_name(r, several): r for r in s.records} for s in (old, new))
    return before, after


def _name(record: Record, with_jaxlib: bool) -> str:
    jaxlib = record.requires.jaxlib
    return f"{record.target} with jaxlib {jaxlib}" if with_jaxlib and jaxlib else str(record.target)


def _both(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[tuple[Any, Any]]:
    return [(old[name], new[name]) for name in old if name in new]


def _sides(old: Iterable[Hashable], new: Iterable[Hashable]) -> Sides:
    before, after = dict.fromkeys(old), dict.fromkeys(new)
    gained = tuple(name for name in after if name not in before)
    return Sides(gained, tuple(name for name in before if name not in after))
