"""`aotbuild sbom`: the bill of materials of a package, in CycloneDX's JSON."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path

from aotbuild.cli.command import UsageError, argument, command, new_file
from aotbuild.cli.destination import Destination
from aotbuild.cli.inspect import place_of
from aotbuild.cli.output import Output


@command(
    "Print a bill of materials (CycloneDX).",
    argument("place", metavar="PLACE"),
    argument("--out", type=new_file, metavar="FILE", help="Write to this file, not to stdout."),
)
def sbom(_: Output, place: str, out: Path | None) -> None:
    """Print what PLACE is made of: a wheel, an _aot folder, or the name of an installed package.

    Reads the index alone, and imports neither the package nor jax.
    """
    from aotbuild.report.sbom import BEGINS, missing_library, sbom_json, timestamp_of
    from aotbuild.runtime.locate import locate

    if missing := missing_library():
        raise UsageError(missing)
    try:
        timestamp = timestamp_of(os.environ)
    except ValueError as err:
        raise UsageError(str(err)) from err
    destination = Destination(out, BEGINS, "bill of materials in CycloneDX's JSON")
    with closing(locate(place_of(place))) as source:
        data = sbom_json(source, timestamp=timestamp)
    destination.write(data)
