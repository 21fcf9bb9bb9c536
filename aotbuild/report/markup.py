"""HTML and SVG from values: every text and attribute goes through one function that escapes it."""

from __future__ import annotations

import html
from collections.abc import Iterable
from typing import Any

from aotbuild.report.words import printable, shown

# Elements without an end tag, https://html.spec.whatwg.org/multipage/syntax.html#void-elements
_VOID = frozenset({"meta"})


class Markup(str):
    """Text that is already HTML. Only the functions below make it."""

    __slots__ = ()


def escape(value: Any) -> Markup:
    """Return a value as HTML text: printable, and never a tag; markup stays as it is."""
    if isinstance(value, Markup):
        return value
    return Markup(html.escape(shown(value, limit=20_000), quote=True))


def preformatted(text: str) -> Markup:
    """Return a text of many lines as HTML text; its lines stay lines, nothing is cut."""
    return Markup("\n".join(html.escape(printable(line)) for line in text.split("\n")))


def trusted(text: str) -> Markup:
    """Take a text of our own, such as the style sheet, as it is."""
    return Markup(text)


def join(parts: Iterable[Any], separator: str = "") -> Markup:
    """Return parts one after another, each escaped unless it is markup."""
    return Markup(str(escape(separator)).join(map(escape, parts)))


def tag(name: str, /, *children: Any, **attributes: Any) -> Markup:
    """Return an element. `class_` is `class`, `_` in names is `-`; None leaves an attribute out."""
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(str(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    start = f"<{name}{written}>"
    return Markup(start if name in _VOID else f"{start}{join(children)}</{name}>")
