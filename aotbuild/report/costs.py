"""What XLA estimated of an executable. Untrusted data of the index: a number, or None."""

from __future__ import annotations

from aotbuild.report.words import number
from aotbuild.spec.record import Record


def flops(record: Record) -> float | None:
    """Return XLA's estimate of the operations of one call, on one device."""
    return number(record.analysis.get("flops"))


def bytes_accessed(record: Record) -> float | None:
    """Return XLA's estimate of the bytes that one call moves, on one device."""
    return number(record.analysis.get("bytes_accessed"))


def peak_memory(record: Record) -> float | None:
    """Return the bytes of one call's buffers on one device: arguments, outputs, temporaries.

    Outputs that take the place of donated arguments are counted once.
    """
    names = ("argument_bytes", "output_bytes", "temp_bytes")
    parts = [number(record.analysis.get(name)) for name in names]
    alias = number(record.analysis.get("alias_bytes")) or 0
    known = [part for part in parts if part is not None]
    return max(0, sum(known) - alias) if len(known) == len(names) else None
