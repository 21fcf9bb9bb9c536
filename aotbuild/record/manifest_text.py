"""The text of a new manifest and its entries, as YAML that versions 1.1 and 1.2 read alike."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from aotbuild.errors import ProjectError
from aotbuild.format.files import read_regular
from aotbuild.format.words import plural
from aotbuild.manifest.model import schema_text
from aotbuild.record.entries import Entry
from aotbuild.record.specs import TODO, Unknown

_SCHEMA_FILE = "aotbuild.schema.json"
_SCHEMA_LINE = f"# yaml-language-server: $schema={_SCHEMA_FILE}"
_WIDTH = 100
# An aval needs no quotes outside of flow style.
_AVAL = re.compile(r"~?[a-z][a-z0-9_]*(?:<[a-z]+>)?\[[A-Za-z0-9_,]*\]\Z")
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*\Z")
# What some parser reads as anything but text, in lower case.
_WORDS = {"yes", "no", "on", "off", "true", "false", "null", "todo"}


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


def _entry_lines(key: Any, value: Any, indent: int, lead: str = "") -> Iterator[str]:
    """Yield the lines of `key: value`; `lead` is `- ` for an item of a list."""
    start = f"{' ' * indent}{lead}{flow(key)}:"
    line = f"{start} {_scalar(value)}"
    if len(line) <= _WIDTH or not isinstance(value, dict | list) or not value:
        yield line
        return
    yield start
    yield from _inner(value, indent + len(lead) + 2)


def _scalar(value: Any) -> str:
    """Return a value on one line, outside of flow style."""
    return value if isinstance(value, str) and _AVAL.match(value) else flow(value)


def _inner(value: Any, indent: int) -> Iterator[str]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _entry_lines(key, item, indent)
        return
    for item in value:
        line = f"{' ' * indent}- {_scalar(item)}"
        if len(line) <= _WIDTH or not isinstance(item, dict | list) or not item:
            yield line
        else:
            first, *rest = _inner(item, indent + 2)
            yield f"{' ' * indent}- {first[indent + 2 :]}"
            yield from rest


def manifest_files(path: Path, text: str) -> dict[Path, str]:
    """Return the files of a new manifest: it, and its JSON schema unless one is there."""
    schema = path.parent / _SCHEMA_FILE
    return {path: text} if schema.exists() else {path: text, schema: schema_text()}


def manifest_text(package: str, entries: Iterable[str], comments: Iterable[str] = ()) -> str:
    """Return the text of a new manifest with the lines of its entries."""
    head = (_SCHEMA_LINE, *comments, "version: 1", f"package: {package}", "functions:")
    return "\n".join((*head, *entries)) + "\n"


def read_text(path: Path) -> str | None:
    """Return the text of a file; None if there is none. OSError, or ProjectError if not UTF-8."""
    try:
        return read_regular(path).decode("utf-8")
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as err:
        raise ProjectError(str(path), f"not UTF-8: {err.reason}", "Save it as UTF-8.") from err


def function_lines(name: str, entry: Entry) -> list[str]:
    """Return the lines of an entry, with what it costs above it."""
    notes = [cost(entry), *entry.notes]
    notes += [f"{TODO}: {each}; name a tree like it: {{like: module:attr}}" for each in entry.todos]
    lines = [f"  # {line}" for note in notes for line in textwrap.wrap(note, _WIDTH - 4)]
    lines.append(f"  {flow(name)}:")
    body = entry.body
    signatures = body.pop("signatures", [])
    for key, value in body.items():
        if key == "call":
            lines.append(f"    call: {value}")
        else:
            lines += _args_lines(value, 4) if key == "args" else _entry_lines(key, value, 4)
        if key == "call" and signatures:
            lines.append("    signatures:")
            for each in signatures:
                lines += _signature_lines(each, 6)
    return lines


def cost(entry: Entry) -> str:
    """Return `1,204 calls, 3 signatures, 12.4 s of first calls`."""
    signatures = plural(len(entry.seen), "signature")
    seconds = f"{entry.tally.seconds:,.1f} s of first calls"
    return f"{plural(entry.tally.calls, 'call')}, {signatures}, {seconds}"


def _signature_lines(signature: dict[str, Any], indent: int) -> list[str]:
    """Return the lines of an item of `signatures:`."""
    lines: list[str] = []
    for key, value in signature.items():
        inner = indent + 2
        lines += _args_lines(value, inner) if key == "args" else _entry_lines(key, value, inner)
    if not lines:
        return [f"{' ' * indent}- {{}}"]
    return [f"{' ' * indent}- {lines[0].lstrip()}", *lines[1:]]


def _args_lines(args: Sequence[dict[str, Any]], indent: int) -> Iterator[str]:
    yield f"{' ' * indent}args:"
    for argument in args:
        for name, spec in argument.items():
            yield from _entry_lines(name, spec, indent + 2, "- ")
