"""`aotbuild schema`: the JSON schema of the manifest, for editors."""

from __future__ import annotations

import os
from pathlib import Path

import click


@click.command()
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write to this file instead of stdout.",
)
def schema(out: Path | None) -> None:
    """Print the JSON schema of the manifest."""
    from aotbuild.build.manifest.schema import schema_text

    data = schema_text().encode()
    if out is None:
        click.echo(data, nl=False)
    else:
        _write(out, data)


def _write(path: Path, data: bytes) -> None:
    """Write the whole file or leave what was there."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.write_bytes(data)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
