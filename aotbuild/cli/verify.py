"""`aotbuild verify`: prove a package on this machine before anything depends on it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from aotbuild.cli.command import argument, command, flag, seconds
from aotbuild.cli.exit_codes import FAILED
from aotbuild.cli.output import Output
from aotbuild.report.words import printable

if TYPE_CHECKING:
    from aotbuild.verify.outcome import Outcome, Report

_HEADERS = ("check", "subject", "result")


@command(
    "Prove that a package is whole, loads here, and computes what it did.",
    argument("place", metavar="PLACE"),
    argument(
        "--timeout",
        type=seconds,
        default=300.0,
        metavar="SECONDS",
        help="The time that loading and calling one executable may take; default: 300.",
    ),
    flag("--no-run", help="Check bytes only; load and call no native code."),
)
def verify(output: Output, place: str, timeout: float, no_run: bool) -> int | None:
    """Check every byte of PLACE, then load and call each executable that fits this host.

    PLACE is a wheel, an _aot folder, the folder around one, or an installed package. Executables
    are loaded and called in child processes, up to 16 in one, and their results compared with the
    golden outputs of the build. That is running foreign code: --no-run leaves both out.
    """
    from aotbuild.verify.api import verify

    output.document["place"] = place
    report = verify(place, load=not no_run, timeout=timeout)
    output.document.update(_document(report))
    _print(output, report)
    return None if report.passed else FAILED


_TOLERANCES = (
    "golden: equal within the tolerance of each dtype, not bit for bit, because CPU levels and "
    "devices round differently"
)


def _document(report: Report) -> dict[str, Any]:
    from aotbuild.verify.outcome import Status

    return {
        "kind": report.kind,
        "package": report.package,
        "passed": report.passed,
        "counts": {status.value: report.count(status) for status in Status},
        "not_loaded": report.not_loaded,
        "checks": [outcome.to_json() for outcome in report.outcomes],
    }


def _print(output: Output, report: Report) -> None:
    from aotbuild.verify.outcome import GOLDEN, LOAD, Status

    outcomes = report.outcomes
    output.table(_HEADERS, [(o.check, printable(o.subject), o.status.value) for o in outcomes])
    _print_reasons(output, [o for o in outcomes if o.status is not Status.PASS or o.reasons])
    counts = [(report.count(status), status.value) for status in Status]
    output.text()
    output.text(", ".join(f"{number} {name}" for number, name in counts if number))
    if any(each.check == GOLDEN and each.status is Status.PASS for each in outcomes):
        output.text(_TOLERANCES)
    if found := report.not_loaded:
        total = sum(outcome.check == LOAD for outcome in outcomes)
        output.text(f"{sum(found.values())} of {total} executables were not loaded:")
        for reason, number in found.items():
            output.text(f"  {number}: {printable(reason)}")
    if report.passed and report.count(Status.NOT_CHECKED):
        output.text("nothing failed; what was not checked is not proven")
    if not report.passed:
        output.text("do not install it: get it again from where it comes from, or build it again")


def _print_reasons(output: Output, outcomes: Sequence[Outcome]) -> None:
    """Print each reason once, below the first of the outcomes that it explains."""
    grouped: dict[tuple[str, tuple[str, ...]], list[Outcome]] = {}
    for outcome in outcomes:
        grouped.setdefault((outcome.status.value, outcome.reasons), []).append(outcome)
    for (status, reasons), same in grouped.items():
        output.text()
        more = f" and {len(same) - 1} more" if len(same) > 1 else ""
        output.text(f"{status}: {same[0].check} of {printable(same[0].subject)}{more}")
        for reason in reasons:
            output.text("\n".join(f"  {printable(line)}" for line in reason.splitlines()))
