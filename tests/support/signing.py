"""Keys for tests of signatures in the store."""

from __future__ import annotations

from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from aotbuild.format.keys import SigningKey


def public_file(path: Path, key: SigningKey) -> Path:
    """Write a public key and return its path."""
    path.write_bytes(key.public_pem)
    return path


def keys(count: int) -> list[SigningKey]:
    """Return keys, sorted by their identity; the same ones in every process that runs tests."""
    seeds = (bytes([number]) * 32 for number in range(count))
    made = [SigningKey(Ed25519PrivateKey.from_private_bytes(seed)) for seed in seeds]
    return sorted(made, key=lambda key: key.key_id)
