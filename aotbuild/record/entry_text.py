"""Entries as lines of a manifest."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import Any

from aotbuild.record.counted import cost
from aotbuild.record.entries import Entry
from aotbuild.record.yaml_text import WIDTH, entry_lines, flow


def function_lines(
    name: str, entry: Entry, body: dict[str, Any], indent: int = 2, step: int = 2
) -> list[str]:
    """Return the lines of an entry, with what it costs above it."""
    pad = " " * indent
    notes = [cost(entry.calls.tally, len(entry.calls.seen)), *entry.notes]
    return [
        *(line for note in notes for line in comment(note, pad)),
        *_body(name, body, indent, step),
    ]


def commented_lines(name: str, entry: Entry, indent: int = 2, step: int = 2) -> list[str]:
    """Return the lines of an entry that cannot be compiled: all are comments."""
    pad = " " * indent
    reasons = [f"{name} is not compiled: {reason}" for reason in entry.problems]
    notes = [cost(entry.calls.tally, len(entry.calls.seen)), *reasons[:3]]
    body = [line.removeprefix(pad) for line in _body(name, entry.body, indent, step)]
    return [
        *(line for note in notes for line in comment(note, pad)),
        *(f"{pad}# {line}" for line in body),
    ]


def comment(text: str, pad: str) -> list[str]:
    """Return a text as lines of comments."""
    plain = "".join(c if c.isprintable() else " " for c in text)
    return [f"{pad}# {line}" for line in textwrap.wrap(plain, max(20, WIDTH - len(pad) - 2))]


def _body(name: str, body: dict[str, Any], indent: int, step: int) -> Iterator[str]:
    inner = indent + step
    yield f"{' ' * indent}{flow(name)}:"
    for key, value in body.items():
        if key == "call":
            yield f"{' ' * inner}call: {value}"
        elif key == "args":
            yield f"{' ' * inner}args:"
            for argument in value:
                for argument_name, spec in argument.items():
                    yield from entry_lines(argument_name, spec, inner + step, "- ")
        else:
            yield from entry_lines(key, value, inner)
