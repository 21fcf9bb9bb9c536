"""Files of a project that are written whole, or not at all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from aotbuild.errors import ProjectError
from aotbuild.format.files import read_regular, write_whole
from aotbuild.manifest.schema import schema_text

SCHEMA_FILE = "aotbuild.schema.json"
SCHEMA_LINE = f"# yaml-language-server: $schema={SCHEMA_FILE}"


@dataclass(frozen=True)
class FileChange:
    """A file and its new text; `before` is the text that it was made from, None for a new file."""

    path: Path
    before: str | None
    after: str

    @property
    def is_change(self) -> bool:
        """Whether there is anything to write."""
        return self.before != self.after


def schema_changes(folder: Path) -> list[FileChange]:
    """Return the change that writes the JSON schema into a folder; none if one is there."""
    path = folder / SCHEMA_FILE
    if path.exists():
        return []
    return [FileChange(path, None, schema_text())]


def read_text(path: Path) -> str | None:
    """Return the text of a file with its line ends as they are; None if there is no file.

    OSError if it cannot be read; ProjectError if it is not UTF-8.
    """
    try:
        return read_regular(path).decode("utf-8")
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as err:
        raise ProjectError(str(path), f"not UTF-8: {err.reason}", "Save it as UTF-8.") from err


def write_changes(changes: Sequence[FileChange]) -> list[Path]:
    """Write files, each whole; return those that were written.

    ProjectError before any is written if one is not what its change was made from.
    """
    wanted = [change for change in changes if change.is_change]
    for change in wanted:
        if read_text(change.path) != change.before:
            problem = "it was changed meanwhile, and nothing was written"
            raise ProjectError(str(change.path), problem, "Run the command again.")
    for change in wanted:
        write_whole(change.path, change.after.encode())
    return [change.path for change in wanted]
