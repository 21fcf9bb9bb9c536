"""Facts as text: printable names, numbers with units, natural order; and XLA's estimates.

A wheel may come from anyone: its names can hold control characters, and its numbers can be any
JSON. What this module returns is printable and finite.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any

from aotbuild.format.record import Record, device_memory, memory_use
from aotbuild.format.target import Target
from aotbuild.format.values import cut
from aotbuild.format.words import bytes_text as bytes_text
from aotbuild.format.words import count_text as count_text
from aotbuild.format.words import plural as plural
from aotbuild.format.words import printable as printable
from aotbuild.platforms.base import checks, known_names

_MAX_DEPTH = 32


def shown(value: Any, limit: int = 400) -> str:
    """Return any value as one line of printable text, with escapes for what does not print."""
    if not isinstance(value, str):
        value = json.dumps(plain(value), ensure_ascii=False, allow_nan=False)
    return cut(printable(value), limit)


def plain(value: Any, depth: int = 0) -> Any:
    """Return JSON that every reader accepts: finite numbers, and at most 32 levels deep."""
    if depth > _MAX_DEPTH:
        return "…"
    if isinstance(value, float) and not math.isfinite(value):
        return repr(value)
    if isinstance(value, list | tuple):
        return [plain(item, depth + 1) for item in value]
    if isinstance(value, dict):
        return {str(name): plain(item, depth + 1) for name, item in value.items()}
    return value


def number(value: Any) -> float | None:
    """Return a count as a number; None unless it is a finite number of at least 0.

    XLA says -1 where it has no estimate.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if 0 <= value < 1e30 else None  # neither NaN nor infinity is


def change_text(old: float | None, new: float | None) -> str:
    """Return the relative change, such as `+3.2%`; empty if there is no ratio."""
    if old is None or new is None or not old:
        return ""
    return f"{(new - old) / old:+.1%}"


def natural(text: str) -> tuple[Any, ...]:
    """Return a sort key that puts `batch=8` before `batch=32`."""
    parts = re.split(r"(\d{1,18})", text)
    return tuple((int(part), "") if at % 2 else (-1, part) for at, part in enumerate(parts))


def target_order(target: Target) -> tuple[Any, ...]:
    """Return a sort key: executables before portable ones, levels from low to high."""
    platforms = known_names()
    known = platforms.index(target.platform) if target.platform in platforms else len(platforms)
    level = checks(target.platform).rank(target.detail)
    return (known, level, target.detail, target.devices)


def flops(record: Record) -> float | None:
    """Return XLA's estimate of the floating-point operations of one call, on one device."""
    return number(record.analysis.get("flops"))


def bytes_accessed(record: Record) -> float | None:
    """Return XLA's estimate of the bytes that one call moves, on one device."""
    return number(record.analysis.get("bytes_accessed"))


def peak_memory(record: Record) -> float | None:
    """Return the bytes that one call needs on one device: buffers and embedded constants."""
    use = memory_use(record.analysis)
    return None if use is None else use.needed


def memory_of_device(record: Record) -> float | None:
    """Return the memory in bytes that programs may use on the target's device, if known."""
    return device_memory(record.analysis)


def peak_text(record: Record) -> str:
    """Return the peak as text, with the device's memory if it is known: `9 GB of 23.6 GB`."""
    device = memory_of_device(record)
    peak = bytes_text(peak_memory(record))
    return peak if device is None else f"{peak} of {bytes_text(device)}"
