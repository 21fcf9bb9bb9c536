"""Demands: reading the keys that must have signed an index, and checking that they did.

`cryptography` is imported only where a key is given, and a demand that cannot be checked is
refused: nothing here ever means "trust all".
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from aotbuild.errors import UntrustedPackage
from aotbuild.frozen import dataclass
from aotbuild.runtime.source import Source, open_regular
from aotbuild.runtime.trust import VARIABLE, Key
from aotbuild.spec.index import Index
from aotbuild.spec.parts import home_of
from aotbuild.spec.signing import (
    MAX_PEM_BYTES,
    MAX_SEALS_BYTES,
    SEALS_NAME,
    Seal,
    key_id,
    read_seals,
    sealed_message,
)

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

_SHOWN = 4
_GIVE_KEYS = "Give the paths of public keys in PEM, as `aotbuild keygen` writes them (.pub.pem)."
_INSTALL = 'Install it: pip install "aotbuild[sign]"'
_GET_SIGNED = "Install a wheel that was signed; whoever builds it does so with `aotbuild sign`."
_WRONG_KEY = "Get the package from its builder, or trust this key if you know whose it is."
_TAMPERED = "Do not use the package: it was changed after it was signed. Get it again."
_WRONG_PACKAGE = "Do not use the package: another one's `_aot` folder is in its place."


@dataclass(frozen=True)
class Demand:
    """What one party demands: a valid signature by one of these keys. `origin` names the party."""

    origin: str
    keys: Mapping[str, Ed25519PublicKey]

    def check(self, place: str, index: bytes, seals: Sequence[Seal]) -> tuple[str, ...]:
        """Return the keys of this demand that signed `index`; UntrustedPackage if none did.

        Of the index the first two lines are enough.

        A signature that names a key of the demand and does not fit is refused, whatever others say.
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


def check_demands(
    source: Source, index: Index, trust: Iterable[Key] | None, package: str | None
) -> None:
    """Raise UntrustedPackage unless an index satisfies `trust` and AOTBUILD_TRUST."""
    demands = read_demands(source.place, trust, "trust=")
    check_package(source.place, index, package)
    place = f"{source.place}/{SEALS_NAME}"
    seals = read_seals(read_seals_file(source), place)
    for demand in demands:
        demand.check(place, index.start, seals)


def check_package(place: str, index: Index, package: str | None) -> None:
    """Raise UntrustedPackage if an index is of another package than the one asked for, if any."""
    stated = home_of(index.header)
    if package is not None and stated != package:
        expected, found = f"the index of package {package!r}", f"the one of {stated!r}"
        raise UntrustedPackage(place, expected, found, _WRONG_PACKAGE)


def read_seals_file(source: Source) -> bytes:
    """Return the signature file of a source; UntrustedPackage if it has none that can be read."""
    try:
        return source.read(SEALS_NAME, MAX_SEALS_BYTES + 1)
    except FileNotFoundError:
        found = "no such file: the package is not signed"
    except OSError as err:
        found = err.strerror or str(err)
    place = f"{source.place}/{SEALS_NAME}"
    raise UntrustedPackage(place, "a signature file", found, _GET_SIGNED)


def read_demands(
    place: str, trust: Iterable[Key] | None, origin: str, *, operator: bool = True
) -> tuple[Demand, ...]:
    """Return the demand of AOTBUILD_TRUST (unless not `operator`) and that of the code, if any.

    UntrustedPackage for one that names no key, or a key that cannot be read.
    """
    demands = []
    variable = os.environ.get(VARIABLE) if operator else None
    if variable is not None:
        demands.append(_read_demand(place, variable.split(os.pathsep), VARIABLE))
    if trust is not None:
        demands.append(_read_demand(place, trust, origin))
    return tuple(demands)


def _read_demand(place: str, trust: Iterable[Key], origin: str) -> Demand:
    if isinstance(trust, (str, bytes, os.PathLike)):
        raise _refused(place, origin, "one key, not a list")
    keys = dict(_read_key(key, place, origin) for key in trust)
    if not keys:
        raise _refused(place, origin, "none")
    return Demand(origin, keys)


def _read_key(key: Key, place: str, origin: str) -> tuple[str, Ed25519PublicKey]:
    shown = "PEM bytes" if isinstance(key, bytes) else repr(str(key))
    try:
        public = _parse_key(key if isinstance(key, bytes) else _read_pem(key))
    except OSError as err:
        raise _refused(place, origin, f"{shown}: {err.strerror or err}") from err
    except ImportError as err:
        expected = f"the package cryptography, to check what {origin} demands"
        raise UntrustedPackage(place, expected, f"none: {err}", _INSTALL) from err
    except Exception as err:
        # ValueError, TypeError, UnsupportedAlgorithm: cryptography does not say which it raises.
        raise _refused(place, origin, f"{shown}: {err}") from err
    return key_id(public.public_bytes_raw()), public


def _read_pem(path: str | os.PathLike[str]) -> bytes:
    if not os.fspath(path):
        msg = "an empty path"
        raise ValueError(msg)
    with open_regular(path) as file:
        return file.read(MAX_PEM_BYTES + 1)


def _parse_key(pem: bytes) -> Ed25519PublicKey:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    if len(pem) > MAX_PEM_BYTES or pem.count(b"-----BEGIN") != 1 or b"PRIVATE KEY" in pem:
        msg = "not the PEM of one public key"
        raise ValueError(msg)
    public = load_pem_public_key(pem)
    if not isinstance(public, Ed25519PublicKey):
        msg = f"{type(public).__name__}, not an Ed25519 key"
        raise TypeError(msg)
    return public


def _refused(place: str, origin: str, found: str) -> UntrustedPackage:
    return UntrustedPackage(place, f"{origin} to name Ed25519 public keys", found, _GIVE_KEYS)


def _some(keys: Iterable[str]) -> str:
    names = sorted(keys)
    rest = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + rest
