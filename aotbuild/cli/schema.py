"""`aotbuild schema`: the JSON schema of the manifest, for editors."""

from __future__ import annotations

from aotbuild.cli.command import command
from aotbuild.cli.output import Output


@command("Print the JSON schema of the manifest.")
def schema(output: Output) -> None:
    """Print the JSON schema of the manifest; with --json, as `schema` of the document."""
    import json

    from aotbuild.manifest.model import schema_text

    text = schema_text()
    output.document["schema"] = json.loads(text)
    output.text(text.rstrip("\n"))
