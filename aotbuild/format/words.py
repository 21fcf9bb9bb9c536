"""Words that messages share: quoted text, the nearest known word, and lists."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from types import MappingProxyType

SHOWN = 40  # characters of the user's text that a message repeats


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
