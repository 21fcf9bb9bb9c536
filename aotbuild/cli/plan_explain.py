"""The report of `aotbuild plan --explain`, as text and as data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from aotbuild.cli.output import Output
from aotbuild.cli.project import Project, count, say

if TYPE_CHECKING:
    from aotbuild.build.branches import Fork, Program
    from aotbuild.build.explain import Explained, FunctionReport

# Signatures that are named; the document has all.
_MOST_LABELS = 6


def explain_project(output: Output, project: Project) -> bool:
    """Trace everything and report it; return whether every trace would be accepted by a build."""
    from aotbuild.build.explain import explain
    from aotbuild.build.toolchains.make import make_ready

    make_ready(project.plan.environment.toolchains, say)
    reports = explain(project.plan, project.sources, _say)
    output.document["functions"] = [_document(report) for report in reports]
    failures = [item.failure for report in reports for item in report.signatures if item.failure]
    output.document["failures"] = [vars(failure) for failure in failures]
    for report in reports:
        output.text()
        for line in _lines(report):
            output.text(line)
    return not failures


def _say(result: Explained) -> None:
    click.echo(f"{'refused' if result.failure else 'traced'}: {result.label}", err=True)


def _document(report: FunctionReport) -> dict[str, Any]:
    return {
        "function": report.name,
        "programs": [
            {
                "signatures": list(program.labels),
                "differs_at": None if program.fork is None else vars(program.fork),
            }
            for program in report.programs
        ],
        "decided_by": list(report.decided_by),
        "signatures": [
            {
                "label": item.label,
                "symbolic": item.symbolic,
                "traced": item.failure is None,
                "notes": list(item.notes),
            }
            for item in report.signatures
        ],
    }


def _lines(report: FunctionReport) -> list[str]:
    lines = [_headline(report)]
    if len(report.programs) > 1:
        for number, program in enumerate(report.programs, 1):
            lines += [f"  program {number}: {_labels(program)}", *_fork(program.fork)]
    lines += [f"  note: {note}" for note in _notes(report)]
    failed: dict[str, list[str]] = {}
    for item in report.signatures:
        if item.failure:
            failed.setdefault(item.failure.message, []).append(item.label)
    for message, labels in failed.items():
        lines.append(f"  refused: {_listing(labels)}")
        lines += [f"    {line}" for line in message.splitlines()]
    return lines


def _notes(report: FunctionReport) -> list[str]:
    """Return one note for each place: the values differ with what the worker traced before."""
    found: dict[str, str] = {}
    for item in report.signatures:
        for note in item.notes:
            found.setdefault(note.partition(" changed ")[0], note)
    return list(found.values())


def _headline(report: FunctionReport) -> str:
    number = sum(len(program.labels) for program in report.programs)
    if not report.programs:
        return f"{report.name}: no program"
    if len(report.programs) == 1:
        whose = f"all {number} signatures" if number > 1 else "its signature"
        return f"{report.name}: one program for {whose}"
    programs = f"{len(report.programs)} programs for {count(number, 'signature')}"
    decided = " or ".join(report.decided_by) or "no single dim or static argument"
    return f"{report.name}: {programs}, decided by {decided}"


def _fork(fork: Fork | None) -> list[str]:
    from aotbuild.build.source_lines import place_text

    if fork is None:
        return []
    lines = [f"    differs from program 1 first: {fork.first}, here {fork.other}"]
    lines += [f"    {line}" for line in place_text(fork.line).splitlines()]
    return [*lines, *([f"    {fork.remark}"] if fork.remark else [])]


def _labels(program: Program) -> str:
    return _listing(program.labels)


def _listing(labels: Sequence[str]) -> str:
    missing = len(labels) - _MOST_LABELS
    more = f" and {missing} more" if missing > 0 else ""
    return ", ".join(labels[:_MOST_LABELS]) + more
