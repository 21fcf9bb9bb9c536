"""`aotbuild sign`: sign the index of a package, with a private key or with an identity."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from aotbuild.cli.command import (
    JSON,
    UsageError,
    argument,
    command,
    existing_file,
    existing_place,
    flag,
    new_file,
)
from aotbuild.cli.exit_codes import VERIFY
from aotbuild.cli.output import Output, say
from aotbuild.errors import AotbuildError
from aotbuild.report.words import printable

if TYPE_CHECKING:
    from aotbuild.format.keys import SigningKey
    from aotbuild.verify.attest import Attestor
    from aotbuild.verify.outcome import Report

LOCK = argument(
    "--lock",
    dest="locks",
    action="append",
    default=[],
    type=existing_file,
    metavar="FILE",
    help="A lock that the package was built from, in the statement that Sigstore signs.",
)
TRUST_CONFIG = argument(
    "--trust-config",
    type=existing_file,
    metavar="FILE",
    help="The trust config of your own Sigstore instance; default: the public one.",
)


@command(
    "Sign a wheel or an _aot folder, with a key or an identity.",
    argument("place", metavar="PLACE", type=existing_place),
    argument(
        "--key",
        dest="key_file",
        type=existing_file,
        metavar="PRIVATE.pem",
        help="An Ed25519 private key, as `aotbuild keygen` makes it.",
    ),
    flag("--sigstore", help="Sign by Sigstore, with the identity of this CI job or person."),
    argument(
        "--out",
        type=new_file,
        metavar="FILE",
        help="Write the signature to this file, and leave PLACE as it is; with --sigstore the "
        "default is PLACE.sigstore.json.",
    ),
    LOCK,
    TRUST_CONFIG,
    JSON,
)
def sign(
    output: Output,
    place: Path,
    key_file: Path | None,
    sigstore: bool,
    out: Path | None,
    locks: list[Path],
    trust_config: Path | None,
    as_json: bool,
) -> int | None:
    """Sign the index of PLACE, a wheel or an _aot folder, and with it all that the index vouches
    for.

    PLACE is checked first, as `aotbuild verify --no-run` does; what fails is not signed. A key with
    a passphrase takes it from AOTBUILD_SIGNING_PASSPHRASE. With --sigstore, the wheel and the files
    given with --lock are signed, too; the identity's token is SIGSTORE_IDENTITY_TOKEN or that of
    the CI, or a browser asks for it.
    """
    output.as_json = as_json
    output.document["place"] = str(place)
    if sigstore and not key_file:
        return _sign_by_sigstore(output, place, out, locks, trust_config)
    if sigstore or not key_file:
        msg = "give either --key or --sigstore; for both, sign with the key first"
        raise UsageError(msg)
    if locks or trust_config:
        msg = "--lock and --trust-config belong to --sigstore: a key signs the index only"
        raise UsageError(msg)
    return _sign_with_key(output, place, key_file, out)


def _sign_with_key(output: Output, place: Path, key_file: Path, out: Path | None) -> int | None:
    from aotbuild.verify.signing import sign

    key = _read_key(key_file)
    signed = sign(place, key, out)
    output.document["key"] = key.key_id
    return _finish(output, signed.report, signed.written, key.key_id)


def _sign_by_sigstore(
    output: Output, place: Path, out: Path | None, locks: list[Path], trust_config: Path | None
) -> int | None:
    from aotbuild.verify.attest import attest

    attestor = _find_attestor(trust_config)
    signed = attest(place, attestor, out, locks)
    output.document.update(identity=attestor.identity, issuer=attestor.issuer)
    signer = f"{attestor.identity}, as {attestor.issuer} says"
    return _finish(output, signed.report, signed.written, signer)


def _find_attestor(trust_config: Path | None) -> Attestor:
    from aotbuild.verify.attest import find_attestor

    try:
        return find_attestor(trust_config)
    except ImportError as err:
        msg = f'--sigstore needs sigstore: pip install "aotbuild[sigstore]" ({err})'
        raise UsageError(msg) from err
    except AotbuildError as err:
        raise UsageError(str(err), "--sigstore") from err


def _finish(output: Output, report: Report, written: Path | None, signer: str) -> int | None:
    output.document.update(
        kind=report.kind,
        package=report.package,
        written=None if written is None else str(written),
        failures=[o.to_json() for o in report.outcomes if o.status.is_failure],
    )
    if written is None:
        _print_failures(report)
        return VERIFY
    output.text(f"signed by {printable(signer)}")
    output.text(f"written to {printable(str(written))}")
    return None


def need_cryptography(err: ImportError) -> NoReturn:
    """End the command with the name of the extra to install."""
    msg = f'signing needs cryptography: pip install "aotbuild[sign]" ({err})'
    raise UsageError(msg) from err


def passphrase() -> str | None:
    """Return the passphrase of the private key, if one is set."""
    from aotbuild.format.keys import PASSPHRASE

    return os.environ.get(PASSPHRASE) or None


def _read_key(path: Path) -> SigningKey:
    from aotbuild.format.keys import read_key

    try:
        return read_key(path, passphrase())
    except ImportError as err:
        need_cryptography(err)
    except AotbuildError as err:
        raise UsageError(str(err), "--key") from err


def _print_failures(report: Report) -> None:
    for outcome in report.outcomes:
        if outcome.status.is_failure:
            say(f"FAIL: {outcome.check} of {printable(outcome.subject)}")
            for line in "\n".join(outcome.reasons).splitlines():
                say(f"  {printable(line)}")
    say("nothing was signed")
