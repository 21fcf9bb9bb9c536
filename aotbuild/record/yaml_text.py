"""Plain values as YAML, which versions 1.1 and 1.2 read alike: block style, or on one line."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from aotbuild.record.specs import TODO

WIDTH = 100
# An aval needs no quotes outside of flow style.
_AVAL = re.compile(r"~?[a-z][a-z0-9_]*(?:<[a-z]+>)?\[[A-Za-z0-9_,]*\]\Z")
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*\Z")
# What some parser reads as anything but text, in lower case.
_WORDS = {"yes", "no", "on", "off", "true", "false", "null", "todo"}


class Unknown(str):
    """A text that is written as it is: TODO."""

    __slots__ = ()


UNKNOWN = Unknown(TODO)


def flow(value: Any) -> str:
    """Return a value on one line: a scalar, `[a, b]` or `{a: b}`."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{flow(key)}: {flow(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(flow, value)) + "]"
    if isinstance(value, Unknown):
        return str(value)
    if isinstance(value, str):
        is_plain = _PLAIN.match(value) and value.lower() not in _WORDS
        return value if is_plain else _quoted(value)
    if isinstance(value, float):
        return _float(value)
    return json.dumps(value)


def _quoted(value: str) -> str:
    """Return a text in double quotes; YAML allows no control characters and no surrogates in it."""
    text = json.dumps(value, ensure_ascii=False)
    return "".join(c if c.isprintable() else f"\\U{ord(c):08X}" for c in text)


def _float(value: float) -> str:
    """Return a float that both versions of YAML read as one: with a point and a signed exponent."""
    text = repr(value)
    if text in ("inf", "-inf", "nan"):
        return text.replace("inf", ".inf").replace("nan", ".nan")
    mantissa, e, exponent = text.partition("e")
    mantissa += "" if "." in mantissa else ".0"
    sign = "" if not e or exponent[0] in "+-" else "+"
    return f"{mantissa}{e}{sign}{exponent}"


def entry_lines(key: Any, value: Any, indent: int, lead: str = "") -> Iterator[str]:
    """Yield the lines of `key: value`; `lead` is `- ` for an item of a list."""
    start = f"{' ' * indent}{lead}{flow(key)}:"
    line = f"{start} {scalar(value)}"
    if len(line) <= WIDTH or not isinstance(value, dict | list) or not value:
        yield line
        return
    yield start
    yield from _inner(value, indent + len(lead) + 2)


def scalar(value: Any) -> str:
    """Return a value on one line, outside of flow style."""
    return value if isinstance(value, str) and _AVAL.match(value) else flow(value)


def _inner(value: Any, indent: int) -> Iterator[str]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from entry_lines(key, item, indent)
        return
    for item in value:
        line = f"{' ' * indent}- {scalar(item)}"
        if len(line) <= WIDTH or not isinstance(item, dict | list) or not item:
            yield line
        else:
            first, *rest = _inner(item, indent + 2)
            yield f"{' ' * indent}- {first[indent + 2 :]}"
            yield from rest
