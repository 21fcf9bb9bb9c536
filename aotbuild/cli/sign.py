"""`aotbuild sign`: sign the index of a package with a private key."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

from aotbuild.cli.exit_codes import VERIFY
from aotbuild.cli.output import Output
from aotbuild.errors import AotbuildError
from aotbuild.report.words import printable

if TYPE_CHECKING:
    from aotbuild.verify.outcome import Report
    from aotbuild.verify.signing import SigningKey


@click.command(short_help="Sign a wheel or an _aot folder with a key.")
@click.argument("place", type=click.Path(exists=True, path_type=Path))
@click.option(
    "--key",
    "key_file",
    required=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="PRIVATE.pem",
    help="An Ed25519 private key, as `aotbuild keygen` makes it.",
)
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the signature to this file, and leave PLACE as it is.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.pass_obj
def sign(output: Output, place: Path, key_file: Path, out: Path | None, as_json: bool) -> None:
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
        output.finish(None)
        raise click.exceptions.Exit(VERIFY)
    output.text(f"signed by {key.key_id}")
    output.text(f"written to {printable(str(written))}")


def need_cryptography(err: ImportError) -> NoReturn:
    """End the command with the name of the extra to install."""
    msg = f'signing needs cryptography: pip install "aotbuild[sign]" ({err})'
    raise click.UsageError(msg) from err


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
        raise click.BadParameter(str(err), param_hint="--key") from err


def _print_failures(report: Report) -> None:
    for outcome in report.outcomes:
        if outcome.status.is_failure:
            click.echo(f"FAIL: {outcome.check} of {printable(outcome.subject)}", err=True)
            for line in "\n".join(outcome.reasons).splitlines():
                click.echo(f"  {printable(line)}", err=True)
    click.echo("nothing was signed", err=True)
