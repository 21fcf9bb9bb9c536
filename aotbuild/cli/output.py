"""What commands print: results on stdout, progress and errors on stderr."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from aotbuild.cli.streams import lost, put
from aotbuild.errors import BuildError, ManifestError, PlanError

if TYPE_CHECKING:
    from rich.console import Console

JSON_VERSION = 1


@dataclass
class Output:
    """The results of one command. With `--json`, stdout gets one document and nothing else."""

    as_json: bool = False
    document: dict[str, Any] = field(default_factory=dict)

    def finish(self, error: dict[str, Any] | None) -> None:
        """Print the document, if one was asked for; `error` says why the command failed."""
        if self.as_json:
            document = {"version": JSON_VERSION, "error": error, **self.document}
            write(json.dumps(document, indent=2, allow_nan=False))

    def text(self, line: str = "") -> None:
        """Print a line of the result for people."""
        if not self.as_json:
            write(line)

    def table(self, headers: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        """Print a table: drawn on a terminal, aligned plain text elsewhere."""
        if self.as_json:
            return
        rows = [*rows]
        console = _console()
        if console and console.is_terminal:
            _draw(console, headers, rows)
        else:
            write(align([[header.upper() for header in headers], *rows]))


def write(line: str) -> None:
    """Print a line on stdout."""
    put(sys.stdout, f"{line}\n")


def write_bytes(data: bytes) -> None:
    """Print bytes on stdout, as they are."""
    try:
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    except OSError as err:
        if problem := lost(sys.stdout, err):
            raise problem from err


def say(line: str) -> None:
    """Print a line about what happens on stderr."""
    put(sys.stderr, f"{line}\n", flush=True)


def error_document(error: BaseException, code: int, message: str) -> dict[str, Any]:
    """Return an error as data: the exit code, the type, the message, and every single cause."""
    document: dict[str, Any] = {"code": code, "type": type(error).__name__, "message": message}
    if isinstance(error, ManifestError | PlanError) and error.problems:
        document["problems"] = [vars(problem) for problem in error.problems]
    if isinstance(error, BuildError):
        document["failures"] = [vars(failure) for failure in error.failures]
    return document


def align(rows: Sequence[Sequence[str]]) -> str:
    """Return rows as lines with aligned columns, two spaces apart, nothing at the ends."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)
    return "\n".join(lines)


def _console() -> Console | None:
    """Return a console that prints text literally: `f32[8]` is not markup.

    None where rich is not installed, as in an image that runs what others build.
    """
    try:
        from rich.console import Console
    except ModuleNotFoundError:
        return None
    return Console(markup=False, highlight=False, emoji=False)


def _draw(console: Console, headers: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for header in headers:
        table.add_column(header, overflow="fold")
    for row in rows:
        table.add_row(*row)
    console.print(table)
