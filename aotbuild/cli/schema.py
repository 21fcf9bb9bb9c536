"""`aotbuild schema`: the JSON schema of the manifest, for editors."""

from __future__ import annotations

from pathlib import Path

import click

from aotbuild.spec.layout import write_whole


@click.command()
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write to this file instead of stdout.",
)
def schema(out: Path | None) -> None:
    """Print the JSON schema of the manifest."""
    from aotbuild.manifest.schema import schema_text

    data = schema_text().encode()
    if out is None:
        click.echo(data, nl=False)
    else:
        write_whole(out, data)
