"""Words that messages share: quoted text, the nearest known word, and lists."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

SHOWN = 40  # characters of the user's text that a message repeats


def quote(value: object) -> str:
    """Return text in single quotes, shortened and on one line."""
    text = str(value)
    return repr(text if len(text) <= SHOWN else text[: SHOWN - 1] + "…")


def did_you_mean(word: object, known: Iterable[object]) -> str:
    """Return `` (did you mean 'x'?)`` for the nearest known word, or nothing."""
    if not isinstance(word, str) or len(word) > SHOWN:
        return ""
    near = difflib.get_close_matches(word, [k for k in known if isinstance(k, str)], 1)
    return f" (did you mean {near[0]!r}?)" if near else ""


def one_of(words: Iterable[object]) -> str:
    """Return ``a, b or c``."""
    *head, last = [str(word) for word in words]
    return f"{', '.join(head)} or {last}" if head else last
