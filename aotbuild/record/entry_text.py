"""Entries as lines of a manifest."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from typing import Any

from aotbuild.record.entries import Entry
from aotbuild.record.specs import TODO
from aotbuild.record.yaml_text import WIDTH, entry_lines, flow


def function_lines(
    name: str, entry: Entry, indent: int = 2, kept: dict[str, Any] | None = None
) -> list[str]:
    """Return the lines of an entry, with what it costs above it."""
    pad, inner = " " * indent, indent + 2
    notes = [cost(entry), *entry.notes]
    notes += [f"{TODO}: {each}; name a tree like it: {{like: module:attr}}" for each in entry.todos]
    lines = [f"{pad}# {line}" for note in notes for line in textwrap.wrap(note, WIDTH - indent - 2)]
    lines.append(f"{pad}{flow(name)}:")
    body = {**entry.body, **(kept or {})}
    signatures = body.pop("signatures", [])
    for key, value in body.items():
        if key == "call":
            lines.append(f"{' ' * inner}call: {value}")
        else:
            lines += _args_lines(value, inner) if key == "args" else entry_lines(key, value, inner)
        if key == "call" and signatures:
            lines.append(f"{' ' * inner}signatures:")
            for each in signatures:
                lines += signature_lines(each, inner + 2)
    return lines


def cost(entry: Entry) -> str:
    """Return `1,204 calls, 3 signatures, 12.4 s to compile`."""
    signatures = counted(len(entry.seen), "signature")
    seconds = f"{entry.tally.seconds:,.1f} s to compile"
    return f"{counted(entry.tally.calls, 'call')}, {signatures}, {seconds}"


def counted(number: int, word: str) -> str:
    """Return `1 call` or `1,204 calls`."""
    return f"{number:,} {word}{'' if number == 1 else 's'}"


def signature_lines(signature: dict[str, Any], indent: int) -> list[str]:
    """Return the lines of an item of `signatures:`."""
    lines: list[str] = []
    for key, value in signature.items():
        inner = indent + 2
        lines += _args_lines(value, inner) if key == "args" else entry_lines(key, value, inner)
    if not lines:
        return [f"{' ' * indent}- {{}}"]
    return [f"{' ' * indent}- {lines[0].lstrip()}", *lines[1:]]


def _args_lines(args: Sequence[dict[str, Any]], indent: int) -> Iterator[str]:
    yield f"{' ' * indent}args:"
    for argument in args:
        for name, spec in argument.items():
            yield from entry_lines(name, spec, indent + 2, "- ")
