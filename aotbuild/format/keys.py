"""Ed25519 keys in PEM: what makes, keeps and reads them, for packages and for the store's entries.

PKCS #8 and SubjectPublicKeyInfo, so that openssl reads and writes the same files. The only file of
aotbuild that handles a private key. `cryptography` is imported on use; without it, making and
reading a key raise ImportError.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from aotbuild.errors import AotbuildError
from aotbuild.format.files import naming, open_regular
from aotbuild.format.signing import Seal, key_id

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (
        Ed25519PrivateKey,
        Ed25519PublicKey,
    )

# The encodings (RFC 8032, 5.1.2) of all points of edwards25519 whose order divides 8, without the
# sign of x: 0 and 1, the two of order 8, and p - 1, p and p + 1.
_SMALL_ORDER = frozenset(
    bytes.fromhex(each)
    for each in (
        "00" * 32,
        "01" + "00" * 31,
        "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
        "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
        *(f"{first}{'ff' * 30}7f" for first in ("ec", "ed", "ee")),
    )
)
MAX_PEM_BYTES = 1 << 16
PASSPHRASE = "AOTBUILD_SIGNING_PASSPHRASE"  # noqa: S105 - the name of a variable


@dataclass(frozen=True, repr=False)
class SigningKey:
    """A private key, ready to sign."""

    _private: Ed25519PrivateKey

    @property
    def public(self) -> Ed25519PublicKey:
        """Its public key, which checks what it signs."""
        return self._private.public_key()

    @property
    def key_id(self) -> str:
        """The identity of its public key."""
        return key_id(self.public.public_bytes_raw())

    @property
    def public_pem(self) -> bytes:
        """Its public key, as `load(trust=…)` takes it."""
        from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

        return self.public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)

    def private_pem(self, passphrase: str | None) -> bytes:
        """Return the key itself, encrypted if there is a passphrase."""
        from cryptography.hazmat.primitives.serialization import (
            BestAvailableEncryption,
            Encoding,
            KeySerializationEncryption,
            NoEncryption,
            PrivateFormat,
        )

        encryption: KeySerializationEncryption = NoEncryption()
        if passphrase:
            encryption = BestAvailableEncryption(passphrase.encode())
        return self._private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption)

    def seal(self, message: bytes) -> Seal:
        """Sign a message. The same key and message give the same bytes."""
        return Seal(self.key_id, self._private.sign(message))


def make_key() -> SigningKey:
    """Return a new key."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return SigningKey(Ed25519PrivateKey.generate())


def read_key(path: Path, passphrase: str | None) -> SigningKey:
    """Read a private key; AotbuildError if it cannot be used, OSError if it cannot be read."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    with open_regular(path) as file:
        pem = file.read(MAX_PEM_BYTES + 1)
    encrypted = b"BEGIN ENCRYPTED PRIVATE KEY" in pem
    secret = passphrase.encode() if passphrase and encrypted else None
    try:
        private = load_pem_private_key(pem, secret)
    except Exception as err:
        # ValueError, TypeError, UnsupportedAlgorithm: cryptography does not say which it raises.
        remedy = f"; set {PASSPHRASE} to its passphrase" if encrypted else ""
        msg = f"{path}: expected an Ed25519 private key in PEM: {err}{remedy}"
        raise AotbuildError(msg) from err
    if not isinstance(private, Ed25519PrivateKey):
        msg = f"{path}: expected an Ed25519 private key, found {type(private).__name__}"
        raise AotbuildError(msg)
    return SigningKey(private)


def public_path(private: Path) -> Path:
    """Return the path of the public key: `release.pub.pem` beside `release.pem`."""
    return private.with_name(f"{private.name.removesuffix('.pem')}.pub.pem")


def write_key(key: SigningKey, private: Path, passphrase: str | None) -> None:
    """Write a private key with mode 0o600, and its public key; FileExistsError if either exists."""
    files = [(private, key.private_pem(passphrase), 0o600)]
    files.append((public_path(private), key.public_pem, 0o644))
    made: list[Path] = []
    try:
        for path, data, mode in files:
            number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
            made.append(path)
            with naming(path), os.fdopen(number, "wb") as file:
                file.write(data)
                os.fsync(file.fileno())
    except BaseException:
        for path in made:
            path.unlink(missing_ok=True)
        raise


def parse_public_key(pem: bytes) -> Ed25519PublicKey:
    """Return the one public key in a PEM; an error of any type if it is anything else."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    if len(pem) > MAX_PEM_BYTES or pem.count(b"-----BEGIN") != 1 or b"PRIVATE KEY" in pem:
        msg = "not the PEM of one public key"
        raise ValueError(msg)
    public = load_pem_public_key(pem)
    if not isinstance(public, Ed25519PublicKey):
        msg = f"{type(public).__name__}, not an Ed25519 key"
        raise TypeError(msg)
    raw = public.public_bytes_raw()
    if raw[:-1] + bytes([raw[-1] & 0x7F]) in _SMALL_ORDER:
        msg = "a point of small order, for which anybody can sign"
        raise ValueError(msg)
    return public
