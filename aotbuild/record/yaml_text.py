"""Values as YAML in block style: what fits goes on one line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from aotbuild.record.flow import flow

WIDTH = 100
# An aval needs no quotes outside of flow style.
_AVAL = re.compile(r"~?[a-z][a-z0-9_]*(?:<[a-z]+>)?\[[A-Za-z0-9_,]*\]\Z")


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
