"""Text for people: printable names, sizes with units, plurals."""

from __future__ import annotations

import os

_PREFIXES = ("", "k", "M", "G", "T", "P", "E")


def printable(text: str) -> str:
    """Return text with escapes for what does not print, so that it cannot control a terminal."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else _escape(char) for char in text)


def os_error_text(error: OSError) -> str:
    """Return what could not be done with the file that an error names."""
    name = error.filename
    named = str(name) if isinstance(name, int) else os.fsdecode(name)
    return f"{printable(named)}: {error.strerror}"


def bytes_text(size: float | None) -> str:
    """Return a size as text, such as `92.1 kB`; `-` if it is not known."""
    return "-" if size is None else f"{_scaled(size, gap=True)}B"


def count_text(value: float | None) -> str:
    """Return a count as text, such as `1.54 M`; `-` if it is not known."""
    return "-" if value is None else _scaled(value, gap=False)


def plural(count: int, noun: str) -> str:
    """Return `1 blob`, `2 blobs`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _scaled(value: float, *, gap: bool) -> str:
    power = 0
    while value >= 999.5 and power < len(_PREFIXES) - 1:
        value, power = value / 1000, power + 1
    digits = f"{value:.3g}" if value < 1000 else f"{value:.0f}"
    return f"{digits} {_PREFIXES[power]}" if gap or power else digits


def _escape(char: str) -> str:
    return char.encode("unicode_escape", "backslashreplace").decode("ascii")
