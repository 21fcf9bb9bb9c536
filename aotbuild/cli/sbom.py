"""`aotbuild sbom`: the bill of materials of a package, in CycloneDX's JSON."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path

import click

from aotbuild.cli.exit_codes import USAGE
from aotbuild.cli.inspect import place_of
from aotbuild.spec.layout import write_whole


class _Refused(click.ClickException):
    """Something that this environment lacks; the message omits the usage line."""

    exit_code = USAGE


@click.command(short_help="Print a bill of materials (CycloneDX).")
@click.argument("place")
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write to this file instead of stdout.",
)
def sbom(place: str, out: Path | None) -> None:
    """Print what PLACE is made of: a wheel, an _aot folder, or the name of an installed package.

    Reads the index alone, and imports neither the package nor jax.
    """
    from aotbuild.report.sbom import missing_library, sbom_json, timestamp_of
    from aotbuild.runtime.locate import locate

    if missing := missing_library():
        raise _Refused(missing)
    try:
        timestamp = timestamp_of(os.environ)
    except ValueError as err:
        raise _Refused(str(err)) from err
    with closing(locate(place_of(place))) as source:
        data = sbom_json(source, timestamp=timestamp)
    if out is None:
        click.echo(data, nl=False)
    else:
        write_whole(out, data)
