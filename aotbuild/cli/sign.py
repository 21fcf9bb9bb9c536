"""`aotbuild sign`: sign the index of a package with a private key."""

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
    new_file,
)
from aotbuild.cli.exit_codes import VERIFY
from aotbuild.cli.output import Output, say
from aotbuild.errors import AotbuildError
from aotbuild.report.words import printable

if TYPE_CHECKING:
    from aotbuild.verify.outcome import Report
    from aotbuild.verify.signing import SigningKey


@command(
    "Sign a wheel or an _aot folder with a key.",
    argument("place", metavar="PLACE", type=existing_place),
    argument(
        "--key",
        dest="key_file",
        required=True,
        type=existing_file,
        metavar="PRIVATE.pem",
        help="An Ed25519 private key, as `aotbuild keygen` makes it.",
    ),
    argument(
        "--out",
        type=new_file,
        metavar="FILE",
        help="Write the signature to this file, and leave PLACE as it is.",
    ),
    JSON,
)
def sign(
    output: Output, place: Path, key_file: Path, out: Path | None, as_json: bool
) -> int | None:
    """Sign the index of PLACE, a wheel or an _aot folder, and with it all that the index vouches
    for.

    PLACE is checked first, as `aotbuild verify --no-run` does; what fails is not signed. A key with
    a passphrase takes it from AOTBUILD_SIGNING_PASSPHRASE.
    """
    from aotbuild.verify.signing import sign

    output.as_json = as_json
    output.document["place"] = str(place)
    key = _read_key(key_file)
    signed = sign(place, key, out)
    report, written = signed.report, signed.written
    output.document.update(
        kind=report.kind,
        package=report.package,
        key=key.key_id,
        written=None if written is None else str(written),
        failures=[o.to_json() for o in report.outcomes if o.status.is_failure],
    )
    if written is None:
        _print_failures(report)
        return VERIFY
    output.text(f"signed by {key.key_id}")
    output.text(f"written to {printable(str(written))}")
    return None


def need_cryptography(err: ImportError) -> NoReturn:
    """End the command with the name of the extra to install."""
    msg = f'signing needs cryptography: pip install "aotbuild[sign]" ({err})'
    raise UsageError(msg) from err


def passphrase() -> str | None:
    """Return the passphrase of the private key, if one is set."""
    from aotbuild.verify.signing import PASSPHRASE

    return os.environ.get(PASSPHRASE) or None


def _read_key(path: Path) -> SigningKey:
    from aotbuild.verify.signing import read_key

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
