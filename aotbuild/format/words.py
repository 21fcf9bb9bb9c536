"""Words of messages: quoted and printable text, the nearest known word, lists, sizes, plurals."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Mapping
from types import MappingProxyType

SHOWN = 40  # characters of the user's text that a message repeats
_PREFIXES = ("", "k", "M", "G", "T", "P", "E")


def quote(value: object) -> str:
    """Return text in single quotes, shortened and on one line."""
    text = str(value)
    return repr(text if len(text) <= SHOWN else text[: SHOWN - 1] + "…")


def did_you_mean(
    word: object, known: Iterable[object], aliases: Mapping[str, str] = MappingProxyType({})
) -> str:
    """Return `` (did you mean 'x'?)``, or nothing.

    That is what an alias stands for, else all known words that begin so, else the nearest one.
    """
    if not isinstance(word, str) or not 0 < len(word) <= SHOWN:
        return ""
    names = [name for name in known if isinstance(name, str)]
    alias = aliases.get(word.lower(), "")
    longer = [name for name in names if name.startswith(f"{word.lower()}-")]
    near = [alias] if alias in names else longer or difflib.get_close_matches(word, names, 1)
    return f" (did you mean {one_of(map(repr, near))}?)" if near else ""


def one_of(words: Iterable[object]) -> str:
    """Return ``a, b or c``."""
    *head, last = [str(word) for word in words]
    return f"{', '.join(head)} or {last}" if head else last


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
    """Return `1 blob`, `1,204 blobs`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _scaled(value: float, *, gap: bool) -> str:
    power = 0
    while value >= 999.5 and power < len(_PREFIXES) - 1:
        value, power = value / 1000, power + 1
    digits = f"{value:.3g}" if value < 1000 else f"{value:.0f}"
    return f"{digits} {_PREFIXES[power]}" if gap or power else digits


def _escape(char: str) -> str:
    return char.encode("unicode_escape", "backslashreplace").decode("ascii")
