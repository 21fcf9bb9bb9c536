"""The JSON schema beside a new manifest, which the manifest's first line names to editors."""

from __future__ import annotations

from pathlib import Path

from aotbuild.manifest.schema import schema_text
from aotbuild.record.changes import FileChange

SCHEMA_FILE = "aotbuild.schema.json"
SCHEMA_LINE = f"# yaml-language-server: $schema={SCHEMA_FILE}"


def schema_changes(folder: Path) -> list[FileChange]:
    """Return the change that writes the schema into a folder; none if one is there."""
    path = folder / SCHEMA_FILE
    if path.exists():
        return []
    return [FileChange(path, None, schema_text(), "new; editors check aot.yaml by it")]
