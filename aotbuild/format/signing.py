"""Ed25519 signatures over entries of the store, as text."""

from __future__ import annotations

import re
from binascii import a2b_base64, b2a_base64
from dataclasses import dataclass

from aotbuild.format.canonical import sha256_hex
from aotbuild.format.values import cut

# Characters of a malformed line in an error, at most.
_LONGEST = 200
SEAL_LINE = r"ed25519 ([0-9a-f]{64}) ([A-Za-z0-9+/]{86}==)"


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


def key_id(public_key: bytes) -> str:
    """Return the identity of a public key, given as its 32 raw bytes: 64 hexadecimal digits."""
    return sha256_hex(public_key)
