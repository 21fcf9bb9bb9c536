"""`aotbuild diff`: what changed between two wheels, folders or installed packages."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from aotbuild.cli.command import JSON, argument, command, flag
from aotbuild.cli.inspect import place_of
from aotbuild.cli.output import Output

if TYPE_CHECKING:
    from aotbuild.report.facts import PackageFacts

DIFFERENT = 1


@command(
    "Print what changed between two wheels.",
    argument("old", metavar="OLD"),
    argument("new", metavar="NEW"),
    JSON,
    flag("--exit-code", help="Exit with 1 where they differ, as git diff does."),
)
def diff(output: Output, old: str, new: str, as_json: bool, exit_code: bool) -> int | None:
    """Print what changed from OLD to NEW: wheels, _aot folders or installed packages.

    Reads the two indexes alone, and imports neither package nor jax.
    """
    from aotbuild.report.diff import diff as compare
    from aotbuild.report.diff_words import COST_HEADERS, cost_rows, diff_document, diff_lines

    output.as_json = as_json
    before, after = _facts(old), _facts(new)
    found = compare(before, after)
    if as_json:
        output.document.update(diff_document(found, before, after))
    for line in diff_lines(found):
        output.text(line)
    rows = cost_rows(found)
    if rows:
        output.text()
        output.table(COST_HEADERS, rows)
    if found.is_empty:
        output.text("no difference")
    return DIFFERENT if exit_code and not found.is_empty else None


def _facts(place: str) -> PackageFacts:
    from aotbuild.report.facts import read_facts
    from aotbuild.runtime.locate import locate

    with closing(locate(place_of(place))) as source:
        return read_facts(source)
