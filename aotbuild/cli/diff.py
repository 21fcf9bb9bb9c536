"""`aotbuild diff`: what changed between two wheels, folders or installed packages."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from aotbuild.cli.command import JSON, UsageError, argument, command, flag
from aotbuild.cli.exit_codes import GATE
from aotbuild.cli.github import Annotation
from aotbuild.cli.inspect import place_of
from aotbuild.cli.output import Output, say, write
from aotbuild.spec.index import FOLDER_NAME

if TYPE_CHECKING:
    from aotbuild.report.diff import Diff
    from aotbuild.report.facts import PackageFacts
    from aotbuild.report.gates import Judged, Limit

DIFFERENT = 1
# Runs of both packages: those that find out whether the new one may be slower, and those that
# decide it then. Even numbers: each package is the first of its run as often as the other.
_FEW_RUNS, _RUNS = 6, 20
# A comment that begins with it can be found again, and replaced.
_MARK = "<!-- aotbuild diff -->"


def limits(text: str) -> tuple[Limit, ...]:
    """Return the gates that `--gate` names."""
    from aotbuild.report.gates import parse_limits

    try:
        return parse_limits(text)
    except ValueError as err:
        raise argparse.ArgumentTypeError(str(err)) from None


@command(
    "Print what changed between two wheels.",
    argument("old", metavar="OLD"),
    argument("new", metavar="NEW"),
    JSON,
    flag("--exit-code", help="Exit with 1 where they differ, as git diff does."),
    argument(
        "--gate",
        type=limits,
        default=(),
        metavar="GATES",
        help="Exit with 13 where NEW exceeds a limit: size=+5%%,coverage=0,cold-start=+10%%. "
        "cold-start loads and calls both.",
    ),
    flag("--markdown", help="Print Markdown, for a comment on a change."),
)
def diff(
    output: Output,
    old: str,
    new: str,
    as_json: bool,
    exit_code: bool,
    gate: tuple[Limit, ...],
    markdown: bool,
) -> int | None:
    """Print what changed from OLD to NEW: wheels, _aot folders or installed packages.

    Reads the two indexes alone, and imports neither package nor jax, unless cold starts are to be
    measured.
    """
    from aotbuild.report.diff import diff as compare
    from aotbuild.report.diff_words import diff_document

    if as_json and markdown:
        msg = "--json and --markdown exclude each other"
        raise UsageError(msg)
    output.as_json, output.is_quiet = as_json, markdown
    before, after = _facts(old), _facts(new)
    found = compare(before, after)
    if as_json:
        output.document.update(diff_document(found, before, after))
    judged = [_judge(limit, before, after) for limit in gate]
    _print_gates(output, judged)
    _print(output, found)
    if markdown:
        title = f"{after.name}: {_short(old)} → {_short(new)}"
        write(f"{_MARK}\n{output.markdown.render(title)}".rstrip("\n"))
    if any(each.reason for each in judged):
        return GATE
    return DIFFERENT if exit_code and not found.is_empty else None


def _facts(place: str) -> PackageFacts:
    from aotbuild.report.facts import read_facts
    from aotbuild.runtime.locate import locate

    with closing(locate(place_of(place))) as source:
        return read_facts(source)


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


def _judge(limit: Limit, old: PackageFacts, new: PackageFacts) -> Judged:
    from aotbuild.report import gates

    if limit.gate == gates.SIZE:
        return gates.judge_size(limit, old, new)
    if limit.gate == gates.COVERAGE:
        return gates.judge_coverage(limit, old, new)
    return _judge_cold_start(limit, old, new)


def _judge_cold_start(limit: Limit, old: PackageFacts, new: PackageFacts) -> Judged:
    from aotbuild.report.gates import is_slower, judge_cold_start
    from aotbuild.verify.cold_start import Package, choose, measure, unpacked

    say("cold-start: loading and calling both packages in fresh processes")
    with unpacked(old.place) as old_folder, unpacked(new.place) as new_folder:
        chosen = choose(
            Package(old_folder, tuple(old.records)), Package(new_folder, tuple(new.records))
        )
        measured = measure(chosen, _FEW_RUNS)
        if is_slower(limit, measured.times):
            say("cold-start: the new package is slower, perhaps by chance; measuring for longer")
            measured = measure(chosen, _RUNS)
    return judge_cold_start(limit, measured.times, measured.skipped)


def _print_gates(output: Output, judged: Sequence[Judged]) -> None:
    from aotbuild.report.gates import GATE_HEADERS

    output.document["gates"] = [each.to_json() for each in judged]
    if not judged:
        return
    output.table(GATE_HEADERS, [each.row for each in judged])
    output.text()
    for each in judged:
        for line in (*filter(None, [each.reason]), *each.details):
            output.text(line)
        if each.reason:
            output.annotations.append(Annotation("error", "\n".join((each.reason, *each.details))))
    output.text()
