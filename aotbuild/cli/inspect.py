"""`aotbuild inspect`: what a package holds, without importing its code or jax."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from aotbuild.cli.inspect_stage import print_stage, stage_options, wanted_stage
from aotbuild.cli.output import Output
from aotbuild.errors import UnknownFunction
from aotbuild.spec.files import write_whole

if TYPE_CHECKING:
    from aotbuild.report.facts import FunctionFacts, PackageFacts
    from aotbuild.runtime.source import Source
    from aotbuild.spec.record import Blob


@click.command(short_help="Print what a wheel or package holds.")
@click.argument("place")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.option("--function", "only", metavar="NAME", help="Only this function, with every aval.")
@click.option(
    "--html",
    "page",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Also write one self-contained page with charts to this file.",
)
@click.option("--digests", is_flag=True, help="Read every blob and compare its digest.")
@stage_options
@click.pass_obj
def inspect(
    output: Output,
    /,
    place: str,
    as_json: bool,
    only: str | None,
    page: Path | None,
    digests: bool,
    **stage: Any,
) -> None:
    """Print what PLACE holds: a wheel, an _aot folder, or the name of an installed package.

    Reads the index alone, and imports neither the package nor jax. --jaxpr, --stablehlo, --hlo,
    --cost and --memory print one kept stage of one executable, and nothing else.
    """
    from aotbuild.report.digests import check_digests, damages
    from aotbuild.report.document import package_document
    from aotbuild.report.stages import page_texts
    from aotbuild.report.text import digest_lines
    from aotbuild.runtime.locate import locate

    output.as_json = as_json
    wanted = wanted_stage(stage)
    if wanted and (page or digests):
        msg = f"--{wanted.stage} prints one text; leave out --html and --digests"
        raise click.UsageError(msg)
    with closing(locate(place_of(place))) as source:
        facts = _read_facts(source, only)
        if wanted:
            print_stage(output, source, facts, wanted)
            return
        checked = check_digests(source, facts.blobs) if digests else None
        texts = page_texts(facts, source) if page else {}
    if page is not None:  # before anything is printed: a reader of stdout may have left
        _write_page(page, facts, texts)
    if as_json:
        output.document.update(package_document(facts, checked))
    else:
        _print(output, facts, full=only is not None)
        for line in digest_lines(checked) if checked is not None else ():
            output.text(line)
    if page is not None:
        output.text(f"written to {page}")
    if checked and (bad := damages(checked)):
        raise bad[0]


def _read_facts(source: Source, only: str | None) -> PackageFacts:
    from aotbuild.report.facts import read_facts

    try:
        return read_facts(source, only)
    except UnknownFunction as err:
        raise click.BadParameter(str(err), param_hint="--function") from err


def place_of(text: str) -> str | Path:
    """Return a path where there is one of that name with an index in it, else the text itself."""
    path = Path(text)
    is_folder = any((path / inside).is_file() for inside in ("index", "_aot/index"))
    return path if is_folder or path.suffix == ".whl" else text


def _print(output: Output, facts: PackageFacts, *, full: bool) -> None:
    from aotbuild.report import startup, text

    for line in text.title_lines(facts):
        output.text(line)
    for function in facts.functions:
        _print_function(output, function, full=full)
    headers, rows = text.coverage_rows(facts)
    _print_section(output, "coverage", headers, rows)
    hoisted = text.constant_rows(facts)
    if hoisted:
        _print_section(output, "constants", ("aval", "size", "used by", "sha256"), hoisted)
    measured = startup.measured_rows(facts)
    if measured:
        _print_section(output, "startup: tuned", startup.MEASURED_HEADERS, measured)
    _print_section(output, "toolchain", ("setting", "value"), text.setting_rows(facts))
    output.text()
    for line in text.total_lines(facts):
        output.text(line)


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


def _write_page(path: Path, facts: PackageFacts, texts: Mapping[Blob, str]) -> None:
    from aotbuild.report.page import page_html

    write_whole(path, page_html(facts, texts).encode("utf-8"))
