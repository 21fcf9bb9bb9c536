"""The file of one entry, on disk and in remote layers: what it is under which key, and its digest.

::

    aotbuild-entry 2
    key <the entry's key>
    body <its size in bytes> <its SHA-256>
    ed25519 <key id> <signature in base64>     a line a key, sorted; none if nobody signed it

    {"a": "line of canonical JSON, the facts"}
    the bytes

The body is what follows the empty line: the facts, a newline and the bytes. Whoever reads an entry
says which key was asked for, so a damaged, cut or swapped file is seen before anything is believed.
A signature covers key, size and digest, and can be added without reading the body.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

from aotbuild.format.canonical import canonical_json, read_canonical, sha256_hex
from aotbuild.format.signing import SEAL_LINE, Seal

_HEAD = re.compile(
    rb"(aotbuild-entry 2\nkey ([0-9a-f]{64})\nbody ([0-9]{1,15}) ([0-9a-f]{64})\n)"
    rb"((?:" + SEAL_LINE.encode() + rb"\n){0,64})\n"
)


_T = TypeVar("_T")
_LOCAL = "local"
# What code that takes facts or bytes for what they should be may raise where they are others.
OTHER_CONTENT = (
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

    @property
    def is_local(self) -> bool:
        """Whether it means nothing on another machine."""
        return bool(self.facts.get(_LOCAL))

    def parsed(self, parse: Callable[[Entry], _T]) -> _T:
        """Return what `parse` makes of it; DamagedEntry if the facts are not what it expects.

        Another version of aotbuild may have written them, or anybody.
        """
        try:
            return parse(self)
        except OTHER_CONTENT as err:
            msg = f"its facts are others than expected: {type(err).__name__}: {err}"
            raise DamagedEntry(msg) from err


@dataclass(frozen=True)
class Head:
    """What stands before the body of an entry's file.

    `length` is the size of all that in bytes, `size` and `sha256` are the body's. `statement` is
    what a signature covers.
    """

    key: str
    size: int
    sha256: str
    seals: tuple[Seal, ...]
    length: int
    statement: bytes

    @property
    def file_size(self) -> int:
        """The size of the whole file in bytes."""
        return self.length + self.size


def write_entry(key: str, entry: Entry) -> bytes:
    """Return the file of an entry, unsigned."""
    body = canonical_json(entry.facts) + b"\n" + entry.data
    return b"".join((_statement(key, body), b"\n", body))


def read_entry(raw: bytes, key: str) -> Entry:
    """Return the entry in the file of this key; DamagedEntry if it is anything else."""
    facts, start = _facts(raw, check_entry(raw, key))
    return Entry(facts, raw[start:])


def is_local(raw: bytes, head: Head) -> bool:
    """Return whether a whole file is of an entry that means nothing on another machine."""
    return bool(_facts(raw, head)[0].get(_LOCAL))


def _facts(raw: bytes, head: Head) -> tuple[dict[str, Any], int]:
    """Return the facts in a whole file, and where the bytes begin; DamagedEntry."""
    end = raw.find(b"\n", head.length)
    try:
        found = read_canonical(raw[head.length : end])
    except ValueError as err:
        msg = "its facts are not JSON as an entry has it"
        raise DamagedEntry(msg) from err
    if end < 0 or not isinstance(found, dict):
        msg = "its facts are not a JSON object"
        raise DamagedEntry(msg)
    return found, end + 1


def check_entry(raw: bytes, key: str) -> Head:
    """Return the head of a whole file, if its key, size and digest are right; else DamagedEntry."""
    head = read_head(raw, key)
    if len(raw) != head.file_size:
        msg = f"expected {head.file_size} bytes, found {len(raw)}"
        raise DamagedEntry(msg)
    if sha256_hex(memoryview(raw)[head.length :]) != head.sha256:
        msg = "its SHA-256 is another one"
        raise DamagedEntry(msg)
    return head


def read_head(raw: bytes, key: str) -> Head:
    """Return the head of a file, of which `raw` may be the first part; DamagedEntry otherwise."""
    match = _HEAD.match(raw)
    if match is None:
        msg = "it does not begin as an entry of the store does"
        raise DamagedEntry(msg)
    found = match[2].decode()
    if found != key:
        msg = f"it is the entry {found}"
        raise DamagedEntry(msg)
    try:
        seals = tuple(map(Seal.parse, match[5].decode().splitlines()))
    except ValueError as err:
        msg = f"a signature in it is none: {err}"
        raise DamagedEntry(msg) from err
    return Head(key, int(match[3]), match[4].decode(), seals, match.end(), match[1])


def with_seals(raw: bytes, key: str, seals: Iterable[Seal]) -> bytes:
    """Return the file of an entry with these signatures, in place of those it has."""
    head = read_head(raw, key)
    lines = "".join(f"{seal}\n" for seal in sorted(set(seals), key=str)).encode()
    return b"".join((head.statement, lines, b"\n", memoryview(raw)[head.length :]))


def _statement(key: str, body: bytes) -> bytes:
    return f"aotbuild-entry 2\nkey {key}\nbody {len(body)} {sha256_hex(body)}\n".encode()
