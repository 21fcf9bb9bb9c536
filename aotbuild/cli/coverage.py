"""`aotbuild coverage`: what of the calls that programs made is compiled."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from aotbuild.cli.command import (
    JSON,
    UsageError,
    argument,
    command,
    existing_file,
    flag,
    new_file,
)
from aotbuild.cli.destination import Destination
from aotbuild.cli.exit_codes import UNCOVERED
from aotbuild.cli.github import Annotation
from aotbuild.cli.inspect import place_of
from aotbuild.cli.output import Output
from aotbuild.report.words import printable

if TYPE_CHECKING:
    from aotbuild.coverage.result import Coverage, Measure
    from aotbuild.record.recording import Recording

_MANIFESTS = (".yaml", ".yml")
_MEASURES = ("calls", "seconds", "signatures")


def percent(text: str) -> float:
    """Return a percentage from 0 to 100, with or without the sign."""
    try:
        found = float(text.removesuffix("%"))
    except ValueError:
        found = -1.0
    if not 0 <= found <= 100:
        msg = f"expected a percentage from 0 to 100, found {text!r}"
        raise argparse.ArgumentTypeError(msg)
    return found


@command(
    "Compare the calls of programs with what is compiled.",
    argument("recordings", nargs="+", type=existing_file, metavar="RECORDING"),
    argument("place", metavar="PLACE"),
    JSON,
    argument(
        "--fail-under",
        dest="least",
        type=percent,
        metavar="PERCENT",
        help="Exit with 15 if less is covered, as --fail-under 100.",
    ),
    argument(
        "--by",
        choices=_MEASURES,
        default="calls",
        help="What --fail-under counts: calls, seconds to compile, or signatures. Default: calls.",
    ),
    argument(
        "--target",
        default="",
        metavar="TARGET",
        help="Count what is for this target alone, as cuda or cpu:x86-64-v3.",
    ),
    flag("--operations", help="Count operations outside of any jit as not covered."),
    argument("--html", dest="page", type=new_file, metavar="FILE", help="Also write a page."),
    argument("--junit", type=new_file, metavar="FILE", help="Also write JUnit XML."),
)
def coverage(
    output: Output,
    recordings: list[Path],
    place: str,
    as_json: bool,
    least: float | None,
    by: str,
    target: str,
    operations: bool,
    page: Path | None,
    junit: Path | None,
) -> int | None:
    """Compare RECORDINGS with PLACE: a wheel, an _aot folder, an installed package or a manifest.

    A recording is what `aotbuild record` writes, or the counters of production: the JSON of
    `Library.stats()`. A call is covered if an executable of its own or one of a larger size runs it
    on each target. Imports neither the package nor jax.
    """
    from aotbuild.coverage.counters import is_counters
    from aotbuild.coverage.result import Measure

    output.as_json = as_json
    pages = _page_at(page) if page else None
    suites = _junit_at(junit) if junit else None
    counters = [path for path in recordings if is_counters(path)]
    recorded = [path for path in recordings if path not in counters]
    if Path(place).suffix in _MANIFESTS:
        found = _of_manifest(recorded, counters, Path(place), target, operations=operations)
    else:
        found = _of_package(recorded, counters, place, target, operations=operations)
    _write(found, pages, suites)  # before anything is printed: a reader of stdout may have left
    output.document.update(found.to_json())
    _print(output, found)
    for path in filter(None, (page, junit)):
        output.text(f"written to {printable(str(path))}")
    return _judge(output, found, Measure(by), least) if least is not None else None


def _of_package(
    recorded: Sequence[Path],
    counters: Sequence[Path],
    place: str,
    target: str,
    *,
    operations: bool,
) -> Coverage:
    from aotbuild.coverage.compare import changed_sources, compare, part_notes, version_notes
    from aotbuild.coverage.counters import called, notes, read_counters
    from aotbuild.coverage.package import PackageServing
    from aotbuild.report.facts import read_facts
    from aotbuild.runtime.locate import locate

    with closing(locate(place_of(place))) as source:
        facts = read_facts(source)
    recording = _read(recorded)
    package = PackageServing(facts, target)
    if target and not package.targets:
        known = ", ".join(sorted({str(record.target) for record in facts.records}))
        msg = f"{target}: the package has executables for {known or 'no target'}"
        raise UsageError(msg, "--target")
    counted = [read_counters(path, facts.name) for path in counters]
    more = [
        *part_notes(facts.header),
        *version_notes(recording, facts.header),
        *changed_sources(recording, facts.header),
        *(note for each in counted for note in notes(each)),
    ]
    calls = [call for each in counted for call in called(each, package)]
    return compare(recording, package, calls, more, count_operations=operations)


def _of_manifest(
    recorded: Sequence[Path],
    counters: Sequence[Path],
    path: Path,
    target: str,
    *,
    operations: bool,
) -> Coverage:
    from aotbuild.coverage.compare import compare
    from aotbuild.coverage.counters import read_counters
    from aotbuild.coverage.manifest import ManifestServing
    from aotbuild.manifest import load_manifest
    from aotbuild.record.recorded_source import source_notes

    for each in counters:
        read_counters(each, "")  # which may be neither
        msg = f"{each} has counters, which only a package can be compared with"
        raise UsageError(msg)
    if target:
        msg = "a manifest has the same signatures for all targets; leave it out"
        raise UsageError(msg, "--target")
    recording = _read(recorded)
    there = ManifestServing(str(path), load_manifest(path))
    more = source_notes(recording.functions.values())
    return compare(recording, there, (), more, count_operations=operations)


def _read(recorded: Sequence[Path]) -> Recording:
    from aotbuild.record.recording import read_recording

    return read_recording(*recorded)


def _print(output: Output, found: Coverage) -> None:
    from aotbuild.coverage.text import HEADERS, function_rows, list_lines, summary_lines

    output.text(printable(found.place))
    output.text()
    if rows := function_rows(found):
        output.table(HEADERS, rows)
    else:
        output.text("no call of a jitted function was recorded")
    for line in list_lines(found):
        output.text(line)
    output.text()
    for line in summary_lines(found):
        output.text(line)


def _page_at(path: Path) -> Destination:
    from aotbuild.report.html import BEGINS

    return Destination(path, BEGINS, "page that aotbuild wrote")


def _junit_at(path: Path) -> Destination:
    from aotbuild.coverage.junit import BEGINS

    return Destination(path, BEGINS, "JUnit XML that aotbuild wrote")


def _write(found: Coverage, page: Destination | None, junit: Destination | None) -> None:
    if page:
        from aotbuild.coverage.page import coverage_page

        page.write(coverage_page(found).encode("utf-8"))
    if junit:
        from aotbuild.coverage.junit import junit_xml

        junit.write(junit_xml(found))


def _judge(output: Output, found: Coverage, by: Measure, least: float) -> int | None:
    """Return the exit code of a comparison with what was demanded."""
    share = found.share(by)
    is_enough = share.is_whole if least >= 100 else share.percent >= least
    output.document["fail_under"] = {"by": str(by), "least": least, "passed": is_enough}
    if is_enough:
        return None
    line = f"{share} of {by} covered, less than the {least:g}% that --fail-under demands"
    output.text(line)
    output.annotations.append(Annotation("error", line))
    return UNCOVERED
