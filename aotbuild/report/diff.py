"""What changed between two packages: functions, signatures, targets, sizes, cost, requirements.

Functions are matched by name, signatures by the label that the manifest gives them, executables by
their targets.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from aotbuild.format.record import Record
from aotbuild.report.document import HEADER_NAMES, pad_text, parameters, requirements_document
from aotbuild.report.facts import (
    FunctionFacts,
    PackageFacts,
    SignatureFacts,
    compared_places,
    provenance_items,
    targets,
    total_size,
)
from aotbuild.report.words import bytes_accessed, flops, memory_of_device, peak_memory, plain

# Fields of executables that are numbers, in the order they are shown.
NUMBERS = ("size", "flops", "bytes_accessed", "peak_memory")


@dataclass(frozen=True)
class Change:
    """One fact that was `old` and is `new`, both as JSON."""

    name: str
    old: Any
    new: Any


@dataclass(frozen=True)
class Unit:
    """An executable by name: function, signature as the manifest writes it, target.

    The Unit of a function, a signature or a target leaves the other names empty.
    """

    function: str = ""
    signature: str = ""
    target: str = ""

    def __str__(self) -> str:
        name = self.signature or self.function
        return f"{name} for {self.target}" if name and self.target else name or self.target


@dataclass(frozen=True)
class Part:
    """What only the new package has, what only the old one has, and what differs in both."""

    gained: tuple[Unit, ...]
    lost: tuple[Unit, ...]
    changed: tuple[tuple[Unit, tuple[Change, ...]], ...]


@dataclass(frozen=True)
class Diff:
    """All differences of two packages.

    Signatures are those of functions that both have, executables those of signatures in both.
    """

    package: tuple[Change, ...]
    functions: Part
    targets: Part
    signatures: Part
    executables: Part

    @property
    def is_empty(self) -> bool:
        """Whether nothing differs."""
        parts = (self.functions, self.targets, self.signatures, self.executables)
        return not (self.package or any(p.gained or p.lost or p.changed for p in parts))


_Facts: TypeAlias = dict[str, Any]


def diff(old: PackageFacts, new: PackageFacts) -> Diff:
    """Return what changed from `old` to `new`. The places of the packages are not compared."""
    functions = [{Unit(f.name): _function(f) for f in each.functions} for each in (old, new)]
    in_both = functions[0].keys() & functions[1].keys()
    signatures = [
        {
            Unit(function.name, signature.label): signature
            for function in each.functions
            for signature in function.signatures
            if Unit(function.name) in in_both
        }
        for each in (old, new)
    ]
    kept = signatures[0].keys() & signatures[1].keys()
    with_jaxlib = any(map(_has_several_jaxlibs, (old, new)))
    executables = [
        {
            Unit(unit.function, unit.signature, _target(record, with_jaxlib)): _executable(record)
            for unit, signature in each.items()
            for record in signature.records
            if unit in kept
        }
        for each in signatures
    ]
    return Diff(
        package=tuple(_fields(_package(old), _package(new))),
        functions=_part(*functions),
        targets=_part(*({Unit(target=name): {} for name in targets(each)} for each in (old, new))),
        signatures=_part(*({u: _signature(s) for u, s in each.items()} for each in signatures)),
        executables=_part(*executables),
    )


def _part(old: Mapping[Unit, _Facts], new: Mapping[Unit, _Facts]) -> Part:
    changes = ((unit, tuple(_fields(old[unit], new[unit]))) for unit in old if unit in new)
    return Part(
        gained=tuple(unit for unit in new if unit not in old),
        lost=tuple(unit for unit in old if unit not in new),
        changed=tuple((unit, fields) for unit, fields in changes if fields),
    )


def _fields(old: _Facts, new: _Facts) -> Iterator[Change]:
    for name in dict.fromkeys((*old, *new)):
        before, after = old.get(name), new.get(name)
        if before != after:
            yield Change(name, before, after)


def _package(facts: PackageFacts) -> _Facts:
    header = {name: plain(facts.header.get(name)) for name in HEADER_NAMES}
    return {**header, "size": total_size(facts)}


def _function(facts: FunctionFacts) -> _Facts:
    function = facts.function
    return {
        "call": function.call,
        "parameters": parameters(function),
        "pad": pad_text(function),
        "ignored": [place for place, *_ in function.ignored],
        "compared": [" with ".join(pair.values()) for pair in compared_places(function)],
    }


def _signature(signature: SignatureFacts) -> _Facts:
    return {"inputs": list(signature.inputs), "outputs": list(signature.outputs)}


def _executable(record: Record) -> _Facts:
    requires = requirements_document(record.requires)
    calls = record.requires.custom_calls
    requires["custom_calls"] = sorted(f"{call.target} ({call.provider})" for call in calls)
    requires["plugin"] = " ".join(record.requires.plugin or ()) or None
    return {
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


def _has_several_jaxlibs(facts: PackageFacts) -> bool:
    """Return whether a signature has a target for several versions of jaxlib."""
    every = [signature for function in facts.functions for signature in function.signatures]
    return any(len({r.target for r in s.records}) < len(s.records) for s in every)


def _target(record: Record, with_jaxlib: bool) -> str:
    jaxlib = record.requires.jaxlib
    return f"{record.target} with jaxlib {jaxlib}" if with_jaxlib and jaxlib else str(record.target)
