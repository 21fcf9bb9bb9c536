"""Seals: cryptographic signatures over an index, and the text file that holds them.

In this code a *signature* is the shape of a call, so the product of a key is a *seal*. Commands,
messages and file names use the usual word, "signature".

A seal covers a label and the first two lines of the index: its format, and the SHA-256 of its
header and rows. That covers everything that is used, because each step compares a digest first:

- `Index.open` hashes header and rows, and compares with line 2;
- `Index` hashes an object before it is parsed, and compares with its row;
- `read_blob` hashes a blob before XLA sees it, and compares with its record, which is an object.

Changing the header, a row, a record or a blob therefore changes line 2, unless SHA-256 has a
collision. Bytes that no row points to are not covered, and are never read. Checking a seal hashes
no part of the package, so its cost does not depend on the number of records.

::

    aotbuild-signatures 1
    ed25519 <SHA-256 of the raw public key> <signature in base64>     a line a key, sorted

This module neither makes nor checks seals, which needs `cryptography`: see `runtime.seals` and
`format.keys`. See docs/reference/format.md.
"""

from __future__ import annotations

import re
from binascii import a2b_base64, b2a_base64
from collections.abc import Iterable
from dataclasses import dataclass

from aotbuild.errors import UntrustedPackage
from aotbuild.format.canonical import sha256_hex
from aotbuild.format.values import cut

SEALS_NAME = "index.sig"
MAX_SEALS_BYTES = 1 << 16
_FIRST_LINE = "aotbuild-signatures 1"
# Characters of a malformed line in an error, at most.
_LONGEST = 200
# A part of the message, so that a seal over an index is valid for nothing else.
_LABEL = b"aotbuild index signature 1\n"
SEAL_LINE = r"ed25519 ([0-9a-f]{64}) ([A-Za-z0-9+/]{86}==)"
_REMEDY = (
    "Get the package again from where it was signed, or remove the signature file and sign it anew."
)


@dataclass(frozen=True)
class Seal:
    """One Ed25519 signature: the identity of its key, and its 64 bytes."""

    key_id: str
    value: bytes

    def __str__(self) -> str:
        return f"ed25519 {self.key_id} {b2a_base64(self.value, newline=False).decode()}"

    @classmethod
    def parse(cls, line: str) -> Seal:
        """Return the seal that `str` gave this text; ValueError for any other text."""
        match = re.fullmatch(SEAL_LINE, line)
        seal = cls(match[1], a2b_base64(match[2])) if match else None
        if seal is None or str(seal) != line:
            msg = f"no seal: {cut(line, _LONGEST)!r}"
            raise ValueError(msg)
        return seal


def sealed_message(index: bytes) -> bytes:
    """Return the message that a key signs; `Index.open` must accept `index`."""
    lines = index[:128].split(b"\n", 2)[:2]
    return _LABEL + b"".join(line + b"\n" for line in lines)


def key_id(public_key: bytes) -> str:
    """Return the identity of a public key, given as its 32 raw bytes: 64 hexadecimal digits."""
    return sha256_hex(public_key)


def write_seals(seals: Iterable[Seal]) -> bytes:
    """Return the bytes of a signature file; equal seals give equal bytes in any order."""
    return "\n".join([_FIRST_LINE, *sorted(map(str, seals)), ""]).encode("ascii")


def read_seals(data: bytes, place: str) -> tuple[Seal, ...]:
    """Read what `write_seals` writes; raises UntrustedPackage for anything else."""
    if len(data) > MAX_SEALS_BYTES:
        raise _malformed(place, f"at most {MAX_SEALS_BYTES} bytes", "more")
    try:
        first, *lines = data.decode("ascii").split("\n")
    except UnicodeDecodeError as err:
        raise _malformed(place, "ASCII text", f"byte {data[err.start]:#04x}") from err
    if first != _FIRST_LINE:
        raise _malformed(place, f"a first line {_FIRST_LINE!r}", _shown(first))
    if not lines or lines.pop():
        raise _malformed(place, "a newline at the end", "none")
    seals = tuple(_read_line(line, number, place) for number, line in enumerate(lines, 2))
    keys = [seal.key_id for seal in seals]
    if not keys or keys != sorted(set(keys)):
        found = "keys in another order, or twice" if keys else "no line"
        raise _malformed(place, "a line for each key, sorted", found)
    return seals


def _read_line(line: str, number: int, place: str) -> Seal:
    try:
        return Seal.parse(line)
    except ValueError as err:
        expected = f"'ed25519 <key id> <signature in base64>' in line {number}"
        raise _malformed(place, expected, _shown(line)) from err


def _malformed(place: str, expected: str, found: str) -> UntrustedPackage:
    return UntrustedPackage(place, f"a signature file: {expected}", found, _REMEDY)


def _shown(text: str) -> str:
    return repr(cut(text, _LONGEST))
