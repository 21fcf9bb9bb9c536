"""Sigstore's bundles: check that a demanded identity signed the statement about a package.

All cryptography and all rules of Sigstore are in the library `sigstore`, which is imported on use.
An identity never stands in for a key: what `trust=` and AOTBUILD_TRUST demand is checked apart from
this, and needs an Ed25519 signature.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from aotbuild.errors import UntrustedPackage
from aotbuild.format.files import open_regular, read_regular_text
from aotbuild.format.index import Index
from aotbuild.runtime.seals import check_package
from aotbuild.verify.outcome import Outcome, Status, concluded, not_checked
from aotbuild.verify.statement import bundle_path, check_statement, subjects_of

if TYPE_CHECKING:
    from sigstore.models import Bundle, ClientTrustConfig, TrustedRoot

CHECK = "identity"
MAX_BYTES = 1 << 22
_GIVE_BUNDLE = "Give the bundle that `aotbuild sign --sigstore` wrote, with --bundle."
_GIVE_CONFIG = "Give a trusted_root.json, or a client's trust config, of your Sigstore instance."
_INSTALL = 'Install it: pip install "aotbuild[sigstore]"'
_NO_NETWORK = (
    "Try again, or give --offline: it takes the trust root that was last fetched, or else the one "
    "that the package sigstore brings."
)
_WRONG = (
    "Do not use the package, unless you know why: get it again, and compare the identity with the "
    "one that its builder publishes."
)


@dataclass(frozen=True)
class IdentityOptions:
    """Who must have signed, the bundle that proves it, and whom to believe about identities.

    Without a bundle, the file beside the package is taken. `locks` must be in the statement, too.
    `trust_config` is a file with a trust root; without it, that of the public Sigstore instance is
    fetched, or with `offline` taken as it was last fetched.
    """

    identity: str
    issuer: str
    bundle: Path | None = None
    locks: tuple[Path, ...] = ()
    trust_config: Path | None = None
    offline: bool = False


def check_identity(
    path: str, index: Index | None, data: bytes, wanted: IdentityOptions, package: str | None
) -> Outcome:
    """Check the bundle of a wheel or an `_aot` folder; `data` holds the bytes of its index.

    `index` is None if it could not be opened; `package` is the requested name, if any.
    """
    place = wanted.bundle or bundle_path(path)
    if index is None:
        return not_checked(CHECK, str(place), "the index failed")
    try:
        check_package(path, index, package)
        bundle = read_bundle(place)
        root = _trusted_root(place, wanted)
        names = verify_bundle(place, bundle, root, path, index, data, wanted)
    except UntrustedPackage as err:
        return concluded(CHECK, str(place), [str(err)])
    except OSError as err:  # of a lock, or of the wheel
        return concluded(CHECK, str(place), [f"{err.filename}: {err.strerror or err}"])
    signer = f"signed by {wanted.identity}, as {wanted.issuer} says"
    reasons = (signer, *_logged(bundle), f"covers {', '.join(names)}")
    return Outcome(CHECK, str(place), Status.PASS, reasons)


def verify_bundle(
    place: Path,
    bundle: Bundle,
    root: TrustedRoot,
    path: str,
    index: Index,
    data: bytes,
    wanted: IdentityOptions,
) -> tuple[str, ...]:
    """Raise UntrustedPackage unless the wanted identity signed a statement about these files.

    Returns the names of the files. Raises OSError if one of them cannot be read.
    """
    from sigstore.verify import Verifier
    from sigstore.verify.policy import Identity

    policy = Identity(identity=wanted.identity, issuer=wanted.issuer)
    try:
        signed = Verifier(trusted_root=root).verify_dsse(bundle, policy)
    except Exception as err:
        # Beside its own errors, the library lets through those of x509 and of what it parses.
        expected = f"a bundle signed by {wanted.identity}, as {wanted.issuer} says"
        raise UntrustedPackage(str(place), expected, str(err) or repr(err), _WRONG) from err
    kind, payload = signed
    found = subjects_of(path, index, data, wanted.locks)
    return check_statement(str(place), kind, payload, found)


def read_bundle(path: Path) -> Bundle:
    """Read a bundle; UntrustedPackage if it is none, or if `sigstore` is not installed."""
    try:
        with open_regular(path) as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as err:
        found = err.strerror or str(err)
        raise UntrustedPackage(str(path), "a bundle", found, _GIVE_BUNDLE) from err
    try:
        from sigstore.models import Bundle
    except ImportError as err:
        expected = "the package sigstore, to check an identity"
        raise UntrustedPackage(str(path), expected, f"none: {err}", _INSTALL) from err
    try:
        if len(data) > MAX_BYTES:
            msg = f"more than {MAX_BYTES} bytes"
            raise ValueError(msg)
        return Bundle.from_json(data)
    except Exception as err:
        # Its own errors, those of pydantic, and those of x509 for a certificate that is none.
        raise UntrustedPackage(str(path), "a bundle of Sigstore", str(err), _GIVE_BUNDLE) from err


def read_trust_config(path: Path) -> ClientTrustConfig | TrustedRoot:
    """Read a trust root, or a trust config that has one; UntrustedPackage if it is neither."""
    from sigstore.models import ClientTrustConfig, TrustedRoot

    try:
        text = read_regular_text(path)
        if "trustedroot" in str(json.loads(text)["mediaType"]):
            return TrustedRoot.from_file(os.fspath(path))
        return ClientTrustConfig.from_json(text)
    except Exception as err:
        # Whatever is in it: OSError, ValueError, KeyError, errors of the library and of pydantic.
        found = f"{type(err).__name__}: {err}"
        raise UntrustedPackage(str(path), "a trust root of Sigstore", found, _GIVE_CONFIG) from err


def _trusted_root(place: Path, wanted: IdentityOptions) -> TrustedRoot:
    from sigstore.models import ClientTrustConfig, TrustedRoot

    if wanted.trust_config is not None:
        found = read_trust_config(wanted.trust_config)
        return found if isinstance(found, TrustedRoot) else found.trusted_root
    try:
        return ClientTrustConfig.production(offline=wanted.offline).trusted_root
    except Exception as err:
        # TUF's errors, those of the network, and those of the cache's folder.
        expected = "the trust root of the public Sigstore instance"
        raise UntrustedPackage(str(place), expected, str(err), _NO_NETWORK) from err


def _logged(bundle: Bundle) -> tuple[str, ...]:
    """Return when a log of the first version recorded the bundle; others state no time."""
    document = json.loads(bundle.to_json())
    (entry,) = document["verificationMaterial"]["tlogEntries"]
    seconds = entry.get("integratedTime")
    if not seconds:
        return ()
    time = datetime.fromtimestamp(int(seconds), UTC)
    return (f"logged at {time:%Y-%m-%dT%H:%M:%SZ} as entry {entry['logIndex']}",)
