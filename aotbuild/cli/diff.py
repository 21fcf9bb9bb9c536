"""`aotbuild diff`: what changed between two wheels, folders or installed packages."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from aotbuild.cli.command import argument, command, flag
from aotbuild.cli.exit_codes import FAILED
from aotbuild.cli.inspect import place_of
from aotbuild.cli.output import Output
from aotbuild.format.index import FOLDER_NAME
from aotbuild.report.words import printable

if TYPE_CHECKING:
    from aotbuild.report.diff import Diff
    from aotbuild.report.facts import PackageFacts

# Of a SHA-256.
_DIGITS = 12


@command(
    "Print what changed between two wheels.",
    argument("old", metavar="OLD"),
    argument("new", metavar="NEW"),
    flag("--exit-code", help=f"Exit with {FAILED} where they differ."),
)
def diff(output: Output, old: str, new: str, exit_code: bool) -> int | None:
    """Print what changed from OLD to NEW: wheels, _aot folders or installed packages.

    Compares the digest of every blob, and imports neither package nor jax.
    """
    from aotbuild.report.diff import diff as compare
    from aotbuild.report.diff_words import diff_document

    before, after = _facts(old), _facts(new)
    found = compare(before, after)
    output.document.update(diff_document(found, before, after))
    for word, place, facts in (("old", old, before), ("new", new, after)):
        output.text(f"{word}: {_identity(place, facts)}")
    output.text()
    _print(output, found)
    return FAILED if exit_code and not found.is_empty else None


def _facts(place: str) -> PackageFacts:
    from aotbuild.report.facts import read_facts
    from aotbuild.runtime.api import locate
    from aotbuild.runtime.checked_blobs import read_blob

    with closing(locate(place_of(place))) as source:
        facts = read_facts(source)
        for _, blob in sorted(facts.blobs.items()):  # what is damaged is not compared
            read_blob(source, blob)
        return facts


def _identity(place: str, facts: PackageFacts) -> str:
    """Return what tells a package from others: its place, and the digest of its index."""
    return f"{printable(_short(place))} (index {facts.digest.removeprefix('sha256:')[:_DIGITS]})"


def _short(place: str) -> str:
    """Return what tells places apart: a wheel's name, or an _aot folder with the one above."""
    path = Path(place)
    return "/".join(path.parts[-2:]) if path.name == FOLDER_NAME else path.name


def _print(output: Output, found: Diff) -> None:
    from aotbuild.report.diff_words import COST_HEADERS, cost_rows, diff_lines

    for line in diff_lines(found):
        output.text(line)
    if rows := cost_rows(found):
        output.text()
        output.table(COST_HEADERS, rows)
    if found.is_empty:
        output.text("no difference")
