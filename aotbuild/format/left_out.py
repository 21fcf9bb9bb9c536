"""What a build left out of a package: the units that failed, in the header of the index.

::

    "left_out": {"units": [{"function":…, "signature":…, "target":…, "stage":…, "reason":…}, …]}

The header has this key only if something was left out. Where the list would be too long for a
header, `more` is the number of units that it does not name.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from aotbuild.format.canonical import canonical_json
from aotbuild.format.record import Record
from aotbuild.format.values import cut

# The key of the index's header.
LEFT_OUT = "left_out"
# What errors of calls say of a unit.
WORDS = "was left out of this wheel when it was built"
# Characters of a label in the header, at most.
LONGEST_LABEL = 200
# Bytes of the list in the header, at most: a reader takes no header of more than 1 MiB.
_MOST_BYTES = 1 << 19
# Units of which an error says that they were left out, at most.
_SHOWN = 3
# Characters of such a line, at most.
_LONGEST = 300


@dataclass(frozen=True)
class LeftOut:
    """A build unit that failed, and is not in the package.

    Attributes:
        function: The name of the function.
        signature: The signature as the manifest writes it, as `score(batch=8)`.
        target: The target, as records write it.
        stage: The stage that failed, as `trace` or `compile`.
        reason: The first lines of the error, without paths of the build machine.
        jaxlib: The version that it was to be compiled with; None for a portable form.
        key: The key of the signature, if the build came so far as to know it.
    """

    function: str
    signature: str
    target: str
    stage: str
    reason: str
    jaxlib: str | None = None
    key: str | None = None

    def __str__(self) -> str:
        return f"{self.signature} for {self.target}"

    @property
    def summary(self) -> str:
        """The stage and the beginning of the reason, on one line."""
        return cut(f"{self.stage}: {' '.join(self.reason.split())}", _LONGEST)

    @property
    def unit(self) -> tuple[Any, ...]:
        """What names the unit; `unit_of` gives the same of a record."""
        return (self.function, self.signature, self.target, self.jaxlib)


@dataclass(frozen=True)
class AllLeftOut:
    """All that a package lacks: the units that its header names, and the number of others."""

    units: tuple[LeftOut, ...] = ()
    more: int = 0

    @property
    def count(self) -> int:
        """How many units were left out."""
        return len(self.units) + self.more

    def of_call(self, function: str, key: str) -> AllLeftOut:
        """Return the units of a call's own signature: those of its key, or with their labels."""
        mine = [unit for unit in self.units if unit.function == function]
        labels = {unit.signature for unit in mine if unit.key == key}
        return AllLeftOut(tuple(unit for unit in mine if unit.signature in labels))

    def lines(self, function: str, labels: Collection[Any] | None = None) -> list[str]:
        """Return lines for an error of a call to a function; empty if nothing of it is missing.

        They are of all its signatures, or only of those with these labels.
        """
        groups: dict[tuple[str, str], list[str]] = {}
        for unit in self.units:
            if unit.function == function and (labels is None or unit.signature in labels):
                groups.setdefault((unit.signature, unit.summary), []).append(unit.target)
        lines = [
            f"{signature} for {', '.join(dict.fromkeys(targets))} {WORDS}: {summary}"
            for (signature, summary), targets in groups.items()
        ]
        more = len(lines) - _SHOWN
        return [*lines[:_SHOWN], *([f"and {more} more signatures"] if more > 0 else [])]


def left_out_header(found: AllLeftOut) -> dict[str, Any]:
    """Return what goes into the header of an index: nothing if nothing was left out."""
    written, size = [], 0
    for unit in sorted(found.units, key=_order):
        data = {name: value for name, value in vars(unit).items() if value is not None}
        size += len(canonical_json(data)) + 1
        if size > _MOST_BYTES:
            break
        written.append(data)
    more = found.count - len(written)
    value = {"units": written, **({"more": more} if more else {})}
    return {LEFT_OUT: value} if found.count else {}


def read_left_out(header: Mapping[str, Any]) -> AllLeftOut:
    """Return what a header says was left out; ValueError if it is malformed."""
    stated = header.get(LEFT_OUT, {"units": []})
    try:
        units, more = stated["units"], stated.get("more", 0)
        found = tuple(LeftOut(**_texts(unit)) for unit in units)
    except (TypeError, LookupError, AttributeError, ValueError) as err:
        shown = cut(repr(stated), 200)
        msg = f"header: {LEFT_OUT}: expected units, each of texts, found {shown}"
        raise ValueError(msg) from err
    if type(more) is not int or more < 0:
        msg = f"header: {LEFT_OUT}: expected a number of units, found {cut(repr(more), 200)}"
        raise ValueError(msg)
    return AllLeftOut(found, more)


def join_left_out(groups: Iterable[AllLeftOut], records: Iterable[Record]) -> AllLeftOut:
    """Return what several packages lack together: the units that none of their records is of."""
    present = {unit_of(record) for record in records}
    units: dict[tuple[Any, ...], LeftOut] = {}
    more = 0
    for group in groups:
        more += group.more
        for unit in sorted(group.units, key=_order):
            if unit.unit not in present:
                units.setdefault(unit.unit, unit)
    return AllLeftOut(tuple(units.values()), more)


def unit_of(record: Record) -> tuple[Any, ...]:
    """Return what names the unit of a record."""
    label = cut(str(record.provenance.get("label")), LONGEST_LABEL)
    return (record.function, label, str(record.target), record.requires.jaxlib)


def _order(unit: LeftOut) -> tuple[str, ...]:
    return (unit.function, unit.signature, unit.target, unit.jaxlib or "", unit.reason)


def _texts(unit: dict[str, Any]) -> dict[str, str]:
    if not all(isinstance(value, str) for value in unit.values()):
        raise ValueError
    return unit
