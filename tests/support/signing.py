"""Keys and signed folders for tests, made with what the command line uses."""

from __future__ import annotations

from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from aotbuild.format.keys import SigningKey
from aotbuild.format.signing import SEALS_NAME, Seal, sealed_message, write_seals


def seal_of(folder: Path, key: SigningKey) -> Seal:
    """Return the signature of a key over the index of an `_aot` folder."""
    return key.seal(sealed_message((folder / "index").read_bytes()))


def put_seals(folder: Path, *seals: Seal) -> Path:
    """Write the signature file of an `_aot` folder, and return the folder."""
    (folder / SEALS_NAME).write_bytes(write_seals(seals))
    return folder


def sign_folder(folder: Path, *keys: SigningKey) -> Path:
    """Sign an `_aot` folder, whatever is in it, and return it."""
    return put_seals(folder, *(seal_of(folder, key) for key in keys))


def public_file(path: Path, key: SigningKey) -> Path:
    """Write a public key and return its path."""
    path.write_bytes(key.public_pem)
    return path


def keys(count: int) -> list[SigningKey]:
    """Return keys, sorted by their identity; the same ones in every process that runs tests."""
    seeds = (bytes([number]) * 32 for number in range(count))
    made = [SigningKey(Ed25519PrivateKey.from_private_bytes(seed)) for seed in seeds]
    return sorted(made, key=lambda key: key.key_id)
