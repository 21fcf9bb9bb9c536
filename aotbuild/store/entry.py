"""The file of one entry, in the folder and behind a URL: which key it is of, and its digest.

::

    aotbuild-entry 2
    key <the entry's key>
    body <its size in bytes> <its SHA-256>

    {"a": "line of canonical JSON, the facts"}
    the bytes

The body is what follows the empty line: the facts, a newline and the bytes. A reader says which key
was asked for, so a damaged, cut or swapped file is noticed before anything in it is used.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from aotbuild.format.canonical import canonical_json, read_canonical, sha256_hex

# The keys of entries, which are the names of their files.
KEY = re.compile(r"[0-9a-f]{64}")
_HEAD = re.compile(rb"aotbuild-entry 2\nkey ([0-9a-f]{64})\nbody ([0-9]{1,15}) ([0-9a-f]{64})\n\n")
_T = TypeVar("_T")
# What code raises that takes facts or bytes for what they should be.
_UNEXPECTED = (
    *(ValueError, TypeError, LookupError, AttributeError, ArithmeticError),
    RecursionError,
)


class DamagedEntry(ValueError):
    """A file is not the entry that was asked for; the text says why."""


@dataclass(frozen=True)
class Entry:
    """Bytes, and facts that only making them shows (plain JSON)."""

    facts: dict[str, Any]
    data: bytes

    def parsed(self, parse: Callable[[Entry], _T]) -> _T:
        """Return what `parse` makes of it; DamagedEntry if the facts are not what it expects."""
        try:
            return parse(self)
        except _UNEXPECTED as err:
            msg = f"unexpected facts: {type(err).__name__}: {err}"
            raise DamagedEntry(msg) from err


def write_entry(key: str, entry: Entry) -> bytes:
    """Return the file of an entry."""
    body = canonical_json(entry.facts) + b"\n" + entry.data
    head = f"aotbuild-entry 2\nkey {key}\nbody {len(body)} {sha256_hex(body)}\n\n"
    return head.encode() + body


def read_entry(raw: bytes, key: str) -> Entry:
    """Return the entry in the file of this key; DamagedEntry if it is anything else."""
    start = check_entry(raw, key)
    end = raw.find(b"\n", start)
    try:
        facts = read_canonical(raw[start:end])
    except ValueError as err:
        msg = "its facts are not canonical JSON"
        raise DamagedEntry(msg) from err
    if end < 0 or not isinstance(facts, dict):
        msg = "its facts are not a JSON object"
        raise DamagedEntry(msg)
    return Entry(facts, raw[end + 1 :])


def check_entry(raw: bytes, key: str) -> int:
    """Return where the body of a whole file begins; DamagedEntry unless all of it is right."""
    match = _HEAD.match(raw)
    if match is None:
        msg = "it does not begin as an entry of the store does"
        raise DamagedEntry(msg)
    found, size, sha256 = match[1].decode(), int(match[2]), match[3].decode()
    if found != key:
        msg = f"it is the entry {found}"
        raise DamagedEntry(msg)
    if len(raw) != match.end() + size:
        msg = f"expected {match.end() + size} bytes, found {len(raw)}"
        raise DamagedEntry(msg)
    if sha256_hex(memoryview(raw)[match.end() :]) != sha256:
        msg = "its SHA-256 differs"
        raise DamagedEntry(msg)
    return match.end()
