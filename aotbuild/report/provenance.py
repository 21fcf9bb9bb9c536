"""What an executable was made from and with, as its record says."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from aotbuild.report.words import shown
from aotbuild.spec.record import Record

# Of the provenance, what differs from executable to executable by its nature. What `startup: tuned`
# measured has a table of its own.
_OF_ONE_UNIT = frozenset({"stablehlo", "floats", "golden", "startup.measured"})


def distinct(values: Iterable[Any]) -> Sequence[Any]:
    """Return different JSON values in the order of their first appearance."""
    return list({shown(value): value for value in values}.values())


def settings(record: Record) -> Iterator[tuple[str, Any]]:
    """Yield what was set for the whole build, without what is of one executable alone."""
    yield from (item for item in provenance_items(record) if item[0] not in _OF_ONE_UNIT)


def provenance_items(record: Record) -> Iterator[tuple[str, Any]]:
    """Yield what an executable was made from and with, as `config.jax_enable_x64`."""
    for name, value in sorted(record.provenance.items()):
        if name in ("label", "symbolic_leaves"):
            continue
        if isinstance(value, dict):
            yield from ((f"{name}.{inner}", item) for inner, item in sorted(value.items()))
        else:
            yield name, value
