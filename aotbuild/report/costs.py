"""What XLA estimated of an executable. Untrusted data of the index: a number, or None."""

from __future__ import annotations

from aotbuild.report.words import bytes_text, number
from aotbuild.spec.memory import device_memory, memory_use
from aotbuild.spec.record import Record


def flops(record: Record) -> float | None:
    """Return XLA's estimate of the operations of one call, on one device."""
    return number(record.analysis.get("flops"))


def bytes_accessed(record: Record) -> float | None:
    """Return XLA's estimate of the bytes that one call moves, on one device."""
    return number(record.analysis.get("bytes_accessed"))


def peak_memory(record: Record) -> float | None:
    """Return the bytes that one call needs of one device: its buffers, and what is embedded."""
    use = memory_use(record.analysis)
    return None if use is None else use.needed


def memory_of_device(record: Record) -> float | None:
    """Return the bytes that programs may use of one device that it was made for, if known."""
    return device_memory(record.analysis)


def peak_text(record: Record) -> str:
    """Return the peak for people, with the device's memory where it is known: `9 GB of 23.6 GB`."""
    device = memory_of_device(record)
    peak = bytes_text(peak_memory(record))
    return peak if device is None else f"{peak} of {bytes_text(device)}"
