"""`aotbuild merge`: one wheel from wheels that were built on several machines, or split."""

from __future__ import annotations

from pathlib import Path

import click

from aotbuild.cli.output import Output
from aotbuild.cli.split import print_written


@click.command(short_help="Join wheels that were built on several machines, or split.")
@click.argument(
    "wheels", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path)
)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    help="The folder for the new wheel. Nothing in it is replaced.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.pass_obj
def merge(output: Output, wheels: tuple[Path, ...], out: Path, as_json: bool) -> None:
    """Write one wheel with the executables of all WHEELS: the same project, version and code, built
    on different machines or with different toolchains; or a base and its companions.

    WHEELS are checked first and stay as they are.
    """
    from aotbuild.wheels.merge import merge

    output.as_json = as_json
    output.document["from"] = [str(wheel) for wheel in wheels]
    print_written(output, merge(wheels, out))
