"""Who made an entry: the signatures that entries from elsewhere must have, and the one that we add.

AOTBUILD_STORE_TRUST names public keys. Every entry that does not come from the folder in front must
be signed by one of them. AOTBUILD_STORE_KEY names a private key that signs what is pushed. With a
key alone, only entries that it has signed are taken: else it would vouch for those of strangers.

A signature covers the statement of an entry: its key, size and digest. So nobody without a trusted
key can change an entry, or give it another entry's key. `cryptography` is imported if one of the
variables is set.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from aotbuild.errors import AotbuildError, PlanError
from aotbuild.format.files import open_regular
from aotbuild.format.keys import MAX_PEM_BYTES, PASSPHRASE, SigningKey, parse_public_key, read_key
from aotbuild.format.signing import key_id
from aotbuild.store.entry import check_entry, with_seals

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    from aotbuild.store.entry import Head

TRUST = "AOTBUILD_STORE_TRUST"
KEY = "AOTBUILD_STORE_KEY"
_INSTALL = 'needs cryptography: pip install "aotbuild[sign]"'


@dataclass(frozen=True)
class Trust:
    """Public keys by their ids, one of which must have signed an entry, and the key that signs.

    Without a public key, every entry is taken.
    """

    keys: Mapping[str, Ed25519PublicKey] = field(default_factory=dict)
    signer: SigningKey | None = None

    def problem(self, head: Head) -> str | None:
        """Return why an entry from elsewhere is not taken; None if it is."""
        if not self.keys:
            return None
        from cryptography.exceptions import InvalidSignature

        mine = [seal for seal in head.seals if seal.key_id in self.keys]
        for seal in mine:
            try:
                self.keys[seal.key_id].verify(seal.value, head.statement)
            except InvalidSignature:
                return f"its signature by key {seal.key_id} does not verify"
        if mine:
            return None
        others = ", ".join(seal.key_id for seal in head.seals)
        return f"it is signed by {others}, which is not trusted" if others else "it is not signed"

    @property
    def obstacle(self) -> str | None:
        """Why nothing is pushed, None if it is: readers with the same trust would refuse it."""
        if not self.keys or (self.signer and self.signer.key_id in self.keys):
            return None
        found = f"has key {self.signer.key_id}" if self.signer else "is not set"
        return f"{TRUST} demands signatures by other keys, and {KEY} {found}"

    def sign(self, raw: bytes, key: str) -> bytes:
        """Return the file of an entry, with our signature if we have a key; DamagedEntry."""
        head = check_entry(raw, key)
        if self.signer is None:
            return raw
        others = (seal for seal in head.seals if seal.key_id != self.signer.key_id)
        return with_seals(raw, key, [*others, self.signer.seal(head.statement)])


def read_trust(environment: Mapping[str, str]) -> Trust:
    """Return what the two variables demand; PlanError if one is set and cannot be used."""
    signer = _signer(environment)
    if TRUST in environment:
        return Trust(_public_keys(environment[TRUST]), signer)
    return Trust({signer.key_id: signer.public} if signer else {}, signer)


def _signer(environment: Mapping[str, str]) -> SigningKey | None:
    path = environment.get(KEY)
    if not path:
        return None
    try:
        return read_key(Path(path).absolute(), environment.get(PASSPHRASE) or None)
    except ImportError as err:
        msg = f"{KEY} {_INSTALL} ({err})"
        raise PlanError(msg) from err
    except OSError as err:
        msg = f"{KEY}: {err.filename}: {err.strerror}; expected an Ed25519 private key in PEM"
        raise PlanError(msg) from err
    except AotbuildError as err:
        msg = f"{KEY}: {err}"
        raise PlanError(msg) from err


def _public_keys(listed: str) -> dict[str, Ed25519PublicKey]:
    found, problems = {}, []
    for path in filter(None, listed.split(os.pathsep)):
        try:
            public = _public_key(Path(path).absolute())
        except ImportError as err:
            msg = f"{TRUST} {_INSTALL} ({err})"
            raise PlanError(msg) from err
        except ValueError as err:
            problems.append(f"  {err}")
        else:
            found[key_id(public.public_bytes_raw())] = public
    if problems or not found:
        listed = "\n".join(problems) or "  found no path"
        msg = (
            f"{TRUST}: expected paths of Ed25519 public keys in PEM, with {os.pathsep!r} between "
            f"them, as `aotbuild keygen` writes them (.pub.pem)\n{listed}"
        )
        raise PlanError(msg)
    return found


def _public_key(path: Path) -> Ed25519PublicKey:
    """Read a public key; ValueError with its path if it cannot be used."""
    try:
        with open_regular(path) as file:
            return parse_public_key(file.read(MAX_PEM_BYTES + 1))
    except ImportError:
        raise
    except Exception as err:
        # cryptography does not say which types it raises.
        msg = f"{path}: {err.strerror if isinstance(err, OSError) else err}"
        raise ValueError(msg) from err
