"""Signatures of an index, checked against the keys that a trust policy names.

`cryptography` is imported only if a key is given. A policy that cannot be checked is refused: there
is no value that means "trust all".
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from aotbuild.errors import UntrustedPackage
from aotbuild.format.files import open_regular
from aotbuild.format.index import Index
from aotbuild.format.keys import MAX_PEM_BYTES, parse_public_key
from aotbuild.format.layout import home_of
from aotbuild.format.signing import (
    MAX_SEALS_BYTES,
    SEALS_NAME,
    Seal,
    key_id,
    read_seals,
    sealed_message,
)
from aotbuild.runtime.source import Source

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

# The path of a public key in PEM, or the PEM itself.
Key: TypeAlias = str | os.PathLike[str] | bytes

_SHOWN = 4
_GIVE_KEYS = "Give the paths of public keys in PEM, as `aotbuild keygen` writes them (.pub.pem)."
_INSTALL = 'Install it: pip install "aotbuild[sign]"'
_GET_SIGNED = "Install a wheel that was signed; whoever builds it does so with `aotbuild sign`."
_WRONG_KEY = "Get the package from its builder, or trust this key if you know whose it is."
_TAMPERED = "Do not use the package: it was changed after it was signed. Get it again."
_WRONG_PACKAGE = "Do not use the package: another one's `_aot` folder is in its place."


@dataclass(frozen=True)
class TrustPolicy:
    """The demand of one party, `origin`: a valid signature by one of these keys (by their ids)."""

    origin: str
    keys: Mapping[str, Ed25519PublicKey]

    def check(self, place: str, index: bytes, seals: Sequence[Seal]) -> tuple[str, ...]:
        """Return the keys of this policy that signed `index`; UntrustedPackage if none did.

        The first two lines of the index are enough. A signature that names one of the keys and does
        not verify is refused, even if another one does.
        """
        from cryptography.exceptions import InvalidSignature

        mine = [seal for seal in seals if seal.key_id in self.keys]
        if not mine:
            expected = f"a signature by {_some(self.keys)}, as {self.origin} demands"
            found = f"signatures by {_some([seal.key_id for seal in seals])}"
            raise UntrustedPackage(place, expected, found, _WRONG_KEY)
        for seal in mine:
            try:
                self.keys[seal.key_id].verify(seal.value, sealed_message(index))
            except InvalidSignature as err:
                expected = f"the index that key {seal.key_id} signed"
                found = "another one: the signature does not verify"
                raise UntrustedPackage(place, expected, found, _TAMPERED) from err
        return tuple(seal.key_id for seal in mine)


def check_signatures(
    source: Source, index: Index, demanded: Mapping[str, Iterable[Key]], package: str | None
) -> tuple[str, ...]:
    """Return the keys that signed the index of `package`, sorted.

    UntrustedPackage unless one key of every party did.
    """
    policies = read_policies(source.place, demanded)
    check_package(source.place, index, package)
    place = f"{source.place}/{SEALS_NAME}"
    seals = read_seals(read_seals_file(source), place)
    return tuple(sorted({key for p in policies for key in p.check(place, index.start, seals)}))


def check_package(place: str, index: Index, package: str | None) -> None:
    """Raise UntrustedPackage if an index belongs to another package than the one asked for."""
    stated = home_of(index.header)
    if package is not None and stated != package:
        expected, found = f"the index of package {package!r}", f"the one of {stated!r}"
        raise UntrustedPackage(place, expected, found, _WRONG_PACKAGE)


def read_seals_file(source: Source) -> bytes:
    """Return the signature file of a source; UntrustedPackage if it cannot be read."""
    try:
        return source.read(SEALS_NAME, MAX_SEALS_BYTES + 1)
    except FileNotFoundError:
        found = "no such file: the package is not signed"
    except OSError as err:
        found = err.strerror or str(err)
    place = f"{source.place}/{SEALS_NAME}"
    raise UntrustedPackage(place, "a signature file", found, _GET_SIGNED)


def read_policies(place: str, demanded: Mapping[str, Iterable[Key]]) -> tuple[TrustPolicy, ...]:
    """Return the policy of each party; UntrustedPackage for no key or one that cannot be read."""
    return tuple(_read_policy(place, keys, origin) for origin, keys in demanded.items())


def _read_policy(place: str, trust: Iterable[Key], origin: str) -> TrustPolicy:
    if isinstance(trust, (str, bytes, os.PathLike)):
        raise _refused(place, origin, "one key, not a list")
    if not isinstance(trust, Iterable):
        raise _refused(place, origin, repr(trust))
    keys = dict(_read_key(key, place, origin) for key in trust)
    if not keys:
        raise _refused(place, origin, "none")
    return TrustPolicy(origin, keys)


def _read_key(key: Key, place: str, origin: str) -> tuple[str, Ed25519PublicKey]:
    shown = "PEM bytes" if isinstance(key, bytes) else repr(str(key))
    try:
        public = parse_public_key(key if isinstance(key, bytes) else _read_pem(key))
    except OSError as err:
        raise _refused(place, origin, f"{shown}: {err.strerror or err}") from err
    except ImportError as err:
        expected = f"the package cryptography, to check what {origin} demands"
        raise UntrustedPackage(place, expected, f"none: {err}", _INSTALL) from err
    except Exception as err:
        # cryptography documents no common base of ValueError, TypeError, UnsupportedAlgorithm…
        raise _refused(place, origin, f"{shown}: {err}") from err
    return key_id(public.public_bytes_raw()), public


def _read_pem(path: str | os.PathLike[str]) -> bytes:
    if not os.fspath(path):
        msg = "an empty path"
        raise ValueError(msg)
    with open_regular(path) as file:
        return file.read(MAX_PEM_BYTES + 1)


def _refused(place: str, origin: str, found: str) -> UntrustedPackage:
    return UntrustedPackage(place, f"{origin} to name Ed25519 public keys", found, _GIVE_KEYS)


def _some(keys: Iterable[str]) -> str:
    names = sorted(keys)
    rest = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + rest
