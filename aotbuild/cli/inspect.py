"""`aotbuild inspect`: what a package holds, without importing its code or jax."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from aotbuild.cli.command import UsageError, argument, command, flag, new_file
from aotbuild.cli.output import Output
from aotbuild.errors import UnknownFunction

if TYPE_CHECKING:
    from aotbuild.report.facts import FunctionFacts, PackageFacts
    from aotbuild.runtime.checked_blobs import Source


@command(
    "Print what a wheel or package holds.",
    argument("place", metavar="PLACE"),
    argument(
        "--function", dest="only", metavar="NAME", help="Only this function, with every aval."
    ),
    flag("--all", dest="every", help="Every executable, constant and setting of the toolchain."),
    argument(
        "--html",
        dest="page",
        type=new_file,
        metavar="FILE",
        help="Also write one self-contained HTML page to this file.",
    ),
)
def inspect(output: Output, place: str, only: str | None, every: bool, page: Path | None) -> None:
    """Print what PLACE holds: a wheel, an _aot folder, or the name of an installed package.

    Reads the index alone, and imports neither the package nor jax.
    """
    from aotbuild.report.document import package_document
    from aotbuild.runtime.api import locate

    with closing(locate(place_of(place))) as source:
        facts = _read_facts(source, only)
    if page:
        from aotbuild.format.files import write_where_told
        from aotbuild.report.page import page_html

        write_where_told(page, page_html(facts).encode("utf-8"))
    output.document.update(package_document(facts))
    if every or only is not None:
        _print(output, facts, full=only is not None)
    else:
        _print_summary(output, facts)
    if page:
        output.text(f"written to {page}")


def _read_facts(source: Source, only: str | None) -> PackageFacts:
    from aotbuild.report.facts import read_facts

    try:
        return read_facts(source, only)
    except UnknownFunction as err:
        raise UsageError(str(err), "--function") from err


def place_of(text: str) -> str | Path:
    """Return a path where there is one of that name with an index in it, else the text itself."""
    path = Path(text)
    is_folder = any((path / inside).is_file() for inside in ("index", "_aot/index"))
    return path if is_folder or path.suffix == ".whl" else text


def _print_summary(output: Output, facts: PackageFacts) -> None:
    from aotbuild.report import text

    for line in text.title_lines(facts):
        output.text(line)
    output.text()
    output.table(text.FUNCTION_HEADERS, text.function_rows(facts))
    output.text()
    output.text(text.total_line(facts))
    output.text("--function NAME shows one function with every aval, --all everything.")


def _print(output: Output, facts: PackageFacts, *, full: bool) -> None:
    from aotbuild.report import text

    for line in text.title_lines(facts):
        output.text(line)
    for function in facts.functions:
        _print_function(output, function, full=full)
    hoisted = text.constant_rows(facts)
    if hoisted:
        _print_section(output, "constants", ("aval", "size", "used by", "sha256"), hoisted)
    chosen = text.choice_rows(facts)
    if chosen:
        _print_section(output, "choices", text.CHOICE_HEADERS, chosen)
    _print_section(output, "toolchain", ("setting", "value"), text.setting_rows(facts))
    output.text()
    output.text(text.total_line(facts))


def _print_function(output: Output, function: FunctionFacts, *, full: bool) -> None:
    from aotbuild.report import text

    output.text()
    output.text(text.function_line(function))
    if not function.signatures:
        output.text("  no executables")
        return
    output.table(text.EXECUTABLE_HEADERS, text.executable_rows(function))
    for line in text.aval_lines(function, full=full):
        output.text(line)


def _print_section(
    output: Output, title: str, headers: Sequence[str], rows: Sequence[Sequence[str]]
) -> None:
    output.text()
    output.text(title)
    output.table(headers, rows)
