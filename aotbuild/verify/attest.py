"""Sign a package with an identity: verify the package, then have Sigstore sign its statement.

The key lives for one signature. Sigstore's certificate authority binds it to the identity of an
OpenID Connect token, and a public log records the signature. The package stays as it is.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from aotbuild.errors import AotbuildError, UntrustedPackage
from aotbuild.format.files import Kind, kind_of, write_where_told
from aotbuild.verify.api import Options, SignatureOptions, examine
from aotbuild.verify.identity import (
    IdentityOptions,
    read_bundle,
    read_trust_config,
    verify_bundle,
)
from aotbuild.verify.outcome import Report, concluded
from aotbuild.verify.statement import bundle_path, make_statement, subjects_of

if TYPE_CHECKING:
    from sigstore.models import Bundle, ClientTrustConfig
    from sigstore.oidc import IdentityToken

TOKEN = "SIGSTORE_IDENTITY_TOKEN"  # noqa: S105 - the name of a variable
_NO_IDENTITY = (
    f"no identity to sign with: set {TOKEN} to an OpenID Connect token for the audience\n"
    "sigstore, or run where the CI gives one (GitHub: permissions: id-token: write), or run in a\n"
    "terminal, where a browser asks you"
)


@dataclass(frozen=True)
class Attestor:
    """An identity, and the Sigstore instance that certifies it."""

    token: IdentityToken
    config: ClientTrustConfig

    @property
    def identity(self) -> str:
        """Who signs, as the certificate has it."""
        return str(self.token.identity)

    @property
    def issuer(self) -> str:
        """Who says so."""
        return str(self.token.federated_issuer)

    def sign(self, statement: bytes) -> Bundle:
        """Sign a statement; AotbuildError if the authority or the log refuses, or is not there."""
        from sigstore.dsse import Statement
        from sigstore.sign import SigningContext

        try:
            with SigningContext.from_trust_config(self.config).signer(self.token) as signer:
                return signer.sign_dsse(Statement(statement))
        except Exception as err:
            # The clients of Fulcio and Rekor, requests and x509 have no error in common.
            msg = f"Sigstore did not sign it: {type(err).__name__}: {err}"
            raise AotbuildError(msg) from err


@dataclass(frozen=True)
class Attested:
    """The result of signing: the checks and, if all passed, the bundle that was written."""

    report: Report
    written: Path | None = None


def find_attestor(trust_config: Path | None) -> Attestor:
    """Return the identity of this environment, with the instance of `trust_config`.

    Without one, that is the public instance. ImportError if `sigstore` is not installed;
    AotbuildError if there is no identity, or if the instance is not known.
    """
    from sigstore.oidc import IdentityToken

    config = _read_config(trust_config)
    try:
        return Attestor(IdentityToken(_find_token(config)), config)
    except AotbuildError:
        raise
    except Exception as err:
        # The CI's credentials, the browser's flow and the token have no error in common.
        msg = f"no identity to sign with: {err}"
        raise AotbuildError(msg) from err


def _read_config(path: Path | None) -> ClientTrustConfig:
    from sigstore.models import ClientTrustConfig, TrustedRoot

    if path is None:
        try:
            return ClientTrustConfig.production()
        except Exception as err:
            # TUF's errors, those of the network, and those of the cache's folder.
            msg = f"the public Sigstore instance does not say where to sign: {err}"
            raise AotbuildError(msg) from err
    found = read_trust_config(path)
    if isinstance(found, TrustedRoot):
        msg = f"{path}: a trust root alone does not say where to sign"
        raise AotbuildError(msg)
    return found


def _find_token(config: ClientTrustConfig) -> str:
    from sigstore.oidc import Issuer, detect_credential

    token = os.environ.get(TOKEN) or detect_credential()
    if token is None:
        if not sys.stdin.isatty():
            raise AotbuildError(_NO_IDENTITY)
        token = str(Issuer(config.signing_config.get_oidc_url()).identity_token())
    return token


def attest(
    place: Path, attestor: Attestor, out: Path | None = None, locks: Sequence[Path] = ()
) -> Attested:
    """Have a wheel or an `_aot` folder signed, and write the bundle to `out` or beside it.

    Signs nothing that fails a check of `verify`, and loads no native code. Raises PackageNotFound,
    NoArtifacts, AotbuildError if nothing was signed, and OSError if a file cannot be read or
    written, or if `out` is a file that is no bundle.
    """
    before = examine(place, Options(signature=SignatureOptions(operator=False)))
    report = before.report(str(place))
    index, data = before.contents.index, before.contents.data
    if before.failed or index is None:
        return Attested(report)
    out = out or bundle_path(before.path)
    _check_replaceable(out)
    subjects = subjects_of(before.path, index, data, locks)
    try:
        bundle = attestor.sign(make_statement(index, subjects))
    except AotbuildError as err:
        failure = concluded("sigstore", str(place), [str(err)])
        return Attested(replace(report, outcomes=(*report.outcomes, failure)))
    # What was signed is what is there now, and this identity proves it to others.
    mine = IdentityOptions(attestor.identity, attestor.issuer, locks=tuple(locks))
    verify_bundle(out, bundle, attestor.config.trusted_root, before.path, index, data, mine)
    write_where_told(out, bundle.to_json().encode())
    return Attested(report, out)


def _check_replaceable(out: Path) -> None:
    """Raise FileExistsError for a file other than a bundle, such as a key or a wheel."""
    if not out.exists() or kind_of(out) is not Kind.FILE:
        return
    try:
        read_bundle(out)
    except UntrustedPackage as err:
        reason = "is there already and is no bundle; name another"
        raise FileExistsError(errno.EEXIST, reason, str(out)) from err
