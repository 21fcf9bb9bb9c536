"""`aotbuild schema`: the JSON schema of the manifest, for editors."""

from __future__ import annotations

from pathlib import Path

from aotbuild.cli.command import argument, command, new_file
from aotbuild.cli.destination import Destination
from aotbuild.cli.output import Output


@command(
    "Print the JSON schema of the manifest.",
    argument("--out", type=new_file, metavar="FILE", help="Write to this file, not to stdout."),
)
def schema(_: Output, out: Path | None) -> None:
    """Print the JSON schema of the manifest."""
    from aotbuild.manifest.schema import BEGINS, schema_text

    Destination(out, BEGINS, "schema of manifests").write(schema_text().encode())
