"""`aotbuild bench`: what the executables of a package cost here, beside compiling them here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING

from aotbuild.cli.command import JSON, UsageError, argument, command, seconds, whole_number
from aotbuild.cli.exit_codes import UNUSABLE
from aotbuild.cli.inspect import place_of
from aotbuild.cli.output import Output, say
from aotbuild.report.words import bytes_text, plural, printable, shown

if TYPE_CHECKING:
    from aotbuild.bench.forms import Package
    from aotbuild.bench.measure import Measured

_HEADERS = ("executable", "form", "load", "first call", "warm call", "memory", "to first result")


@command(
    "Measure the executables of a package here, against compiling them here.",
    argument("place", metavar="PLACE"),
    JSON,
    argument(
        "--function",
        action="append",
        default=[],
        dest="functions",
        metavar="NAME",
        help="Measure this function only; may be given again.",
    ),
    argument(
        "--runs",
        type=whole_number(1),
        default=5,
        metavar="N",
        help="Processes for each form of each executable; default: 5.",
    ),
    argument(
        "--timeout",
        type=seconds,
        default=600.0,
        metavar="SECONDS",
        help="The time that one process may take; default: 600.",
    ),
    argument("--compare", metavar="OLD", help="Measure the executables of another package, too."),
)
def bench(
    output: Output,
    place: str,
    as_json: bool,
    functions: list[str],
    runs: int,
    timeout: float,
    compare: str | None,
) -> int | None:
    """Measure each executable of PLACE that fits this host: loading, first and warm call, memory.

    PLACE is a wheel, an _aot folder, the folder around one, or an installed package. Each figure is
    the median of several fresh processes. Beside the executable, they measure the portable form,
    compiled here, and the source under jax.jit, where it can be imported. That is running the
    package's code, and yours.
    """
    from aotbuild.bench.forms import subjects
    from aotbuild.bench.measure import measure

    output.as_json = as_json
    with ExitStack() as stack:
        package = _package(place, stack)
        old = _package(compare, stack) if compare else None
        _check_names(functions, package)
        chosen = subjects(package, old, functions)
        found = measure(chosen, runs, timeout, say)
    output.document.update(place=place, runs=runs, executables=[each.to_json() for each in found])
    output.table(_HEADERS, [row for each in found for row in _rows(each)])
    output.text()
    for line in _reasons(found):
        output.text(line)
    if not any(each.runs for each in found):
        output.text("no executable of the package runs here")
        return UNUSABLE
    return None


def _package(place: str, stack: ExitStack) -> Package:
    from aotbuild.bench.forms import Package
    from aotbuild.report.facts import read_facts
    from aotbuild.runtime.locate import locate
    from aotbuild.verify.cold_start import unpacked

    with closing(locate(place_of(place))) as source:
        facts = read_facts(source)
    return Package(stack.enter_context(unpacked(facts.place)), tuple(facts.records))


def _check_names(names: Sequence[str], package: Package) -> None:
    known = sorted({record.function for record in package.records})
    for name in names:
        if name not in known:
            msg = f"the package has no function {name!r}; it has {', '.join(map(shown, known))}"
            raise UsageError(msg, "--function")


def _rows(found: Measured) -> Iterator[tuple[str, ...]]:
    title = printable(str(found.subject))
    for form in found.subject.forms:
        run, ratio = found.middle(form), found.ratio(form)
        if run and ratio is not None:
            times = (f"{ms:,.1f} ms" for ms in (run.load_ms, run.first_ms, run.steady_ms))
            relative = "1" if ratio == 1 else f"{ratio:,.2f} times"
            yield title, form, *times, bytes_text(int(run.memory_bytes)), relative
            title = ""


def _reasons(found: Sequence[Measured]) -> Iterator[str]:
    """Yield why forms were not measured, each reason once."""
    grouped: dict[tuple[str, str], list[str]] = {}
    for each in found:
        for form, why in each.skipped.items():
            grouped.setdefault((form, why), []).append(str(each.subject))
    for (form, why), titles in grouped.items():
        names = printable(titles[0]) if len(titles) == 1 else plural(len(titles), "executable")
        yield f"{form}: not measured for {names}: {printable(' '.join(why.split()))}"
