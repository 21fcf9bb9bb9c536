"""`aotbuild inspect`: what a package holds, without importing its code or jax."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aotbuild.cli.command import JSON, UsageError, argument, command, flag, new_file
from aotbuild.cli.destination import Destination
from aotbuild.cli.output import Output, write_bytes
from aotbuild.errors import UnknownFunction
from aotbuild.format.layout import STAGES

if TYPE_CHECKING:
    from aotbuild.format.record import Blob
    from aotbuild.report.facts import FunctionFacts, PackageFacts
    from aotbuild.report.stages import Candidate
    from aotbuild.runtime.source import Source

_OPTIONS = ("--function", "--signature", "--target", "--jaxlib")
_KEYS = ("function", "signature", "target", "jaxlib")
_MOST_LISTED = 40


@dataclass(frozen=True)
class Wanted:
    """One stage, and the names that say of which executable; `file` is where it is, if given."""

    stage: str
    signature: str | None
    target: str | None
    jaxlib: str | None
    file: Path | None


_WORDS = {
    "jaxpr": "the jaxpr",
    "stablehlo": "the StableHLO",
    "hlo": "the optimized HLO",
    "cost": "XLA's cost analysis",
    "memory": "XLA's memory analysis",
}
# What `wanted_stage` reads.
STAGE = (
    *(flag(f"--{name}", help=f"Print {_WORDS[name]} instead.") for name in STAGES),
    argument("--signature", metavar="LABEL", help="Of this signature, as batch=8."),
    argument("--target", metavar="T", help="For this target, as cpu:x86-64-v3."),
    argument("--jaxlib", metavar="V", help="For this version of jaxlib, as 0.10.2."),
    argument(
        "--stages",
        dest="file",
        type=new_file,
        metavar="FILE",
        help="The file of kept stages; default: the one beside PLACE.",
    ),
)


def wanted_stage(options: dict[str, Any]) -> Wanted | None:
    """Return which stage the options ask for, if any; UsageError for two, or names without one."""
    chosen = [name for name in STAGES if options[name]]
    names = {name: options[name] for name in ("signature", "target", "jaxlib", "file")}
    if len(chosen) > 1:
        msg = f"{' and '.join(f'--{name}' for name in chosen)} exclude each other"
        raise UsageError(msg)
    if not chosen and any(value is not None for value in names.values()):
        flags = ", ".join(f"--{name}" for name in STAGES)
        msg = f"--signature, --target, --jaxlib and --stages go with one of {flags}"
        raise UsageError(msg)
    return Wanted(chosen[0], **names) if chosen else None


def print_stage(output: Output, source: Source, facts: PackageFacts, wanted: Wanted) -> None:
    """Print one stage, or add it to the document; its digest is compared first."""
    from aotbuild.report.document import place_document
    from aotbuild.runtime.stages import open_stages, read_stage

    candidate = _choose(facts, wanted)
    blob = dict(candidate.record.stages)[wanted.stage]
    with open_stages(source, facts.header, wanted.file) as stages:
        data = read_stage(stages, blob)
    if output.as_json:
        names = dict(zip(_KEYS, candidate.names, strict=True))
        text = data.decode("utf-8", "replace")
        stage = {"name": wanted.stage, **names, **vars(blob), "text": text}
        output.document.update({**place_document(facts), "stage": stage})
    else:
        _print_bytes(data)


def _choose(facts: PackageFacts, wanted: Wanted) -> Candidate:
    """Return the executable whose stage is asked for; UsageError lists what there is to ask for."""
    from aotbuild.report.stages import candidates, different

    found = candidates(facts, wanted.signature, wanted.target, wanted.jaxlib)
    if not found:
        msg = f"nothing has this signature and target; there is\n{_listing(candidates(facts))}"
        raise UsageError(msg)
    ones = different(found, wanted.stage)
    if len(ones) > 1:
        msg = f"{len(ones)} different texts fit --{wanted.stage}; add one of\n{_listing(ones)}"
        raise UsageError(msg)
    return ones[0]


def _print_bytes(data: bytes) -> None:
    """Write a text to stdout: byte for byte, but harmless where it is a terminal."""
    from aotbuild.report.words import printable

    if sys.stdout.isatty():
        lines = data.decode("utf-8", "replace").split("\n")
        sys.stdout.write("\n".join(printable(line) for line in lines))
    else:
        write_bytes(data)


def _listing(found: list[Candidate]) -> str:
    """Return the options that tell candidates apart, one a line."""
    columns = zip(*(candidate.names for candidate in found), strict=True)
    telling = [len(set(column)) > 1 for column in columns]
    lines = [
        " ".join(
            f"{option} {shlex.quote(name)}"
            for option, name, tells in zip(_OPTIONS, candidate.names, telling, strict=True)
            if tells or not any(telling)
        )
        for candidate in found
    ]
    more = len(lines) - _MOST_LISTED
    cut = [*lines[:_MOST_LISTED], *([f"and {more} more"] if more > 0 else [])]
    return "\n".join(f"  {line}" for line in cut)


@command(
    "Print what a wheel or package holds.",
    argument("place", metavar="PLACE"),
    JSON,
    argument(
        "--function", dest="only", metavar="NAME", help="Only this function, with every aval."
    ),
    argument(
        "--html",
        dest="page",
        type=new_file,
        metavar="FILE",
        help="Also write one self-contained page with charts to this file.",
    ),
    flag("--digests", help="Read every blob and compare its digest."),
    STAGE,
)
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
    from aotbuild.report.document import check_digests, damages, package_document
    from aotbuild.report.stages import page_texts
    from aotbuild.report.text import digest_lines
    from aotbuild.runtime.locate import locate

    output.as_json = as_json
    wanted = wanted_stage(stage)
    if wanted and (page or digests):
        msg = f"--{wanted.stage} prints one text; leave out --html and --digests"
        raise UsageError(msg)
    destination = _page_at(page) if page else None
    with closing(locate(place_of(place))) as source:
        facts = _read_facts(source, only)
        if wanted:
            print_stage(output, source, facts, wanted)
            return
        checked = check_digests(source, facts.blobs) if digests else None
        texts = page_texts(facts, source) if page else {}
    if destination:  # before anything is printed: a reader of stdout may have left
        _write_page(destination, facts, texts)
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
        raise UsageError(str(err), "--function") from err


def place_of(text: str) -> str | Path:
    """Return a path where there is one of that name with an index in it, else the text itself."""
    path = Path(text)
    is_folder = any((path / inside).is_file() for inside in ("index", "_aot/index"))
    return path if is_folder or path.suffix == ".whl" else text


def _print(output: Output, facts: PackageFacts, *, full: bool) -> None:
    from aotbuild.report import text

    for line in text.title_lines(facts, date.today()):
        output.text(line)
    for function in facts.functions:
        _print_function(output, function, full=full)
    if missing := text.left_out_rows(facts):
        _print_section(output, "left out", text.LEFT_OUT_HEADERS, missing)
    headers, rows = text.coverage_rows(facts)
    _print_section(output, "coverage", headers, rows)
    hoisted = text.constant_rows(facts)
    if hoisted:
        _print_section(output, "constants", ("aval", "size", "used by", "sha256", "names"), hoisted)
    measured = text.measured_rows(facts)
    if measured:
        _print_section(output, "startup: tuned", text.MEASURED_HEADERS, measured)
    chosen = text.choice_rows(facts)
    if chosen:
        _print_section(output, "choices", text.CHOICE_HEADERS, chosen)
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


def _page_at(path: Path) -> Destination:
    from aotbuild.report.html import BEGINS

    return Destination(path, BEGINS, "page that aotbuild wrote")


def _write_page(destination: Destination, facts: PackageFacts, texts: Mapping[Blob, str]) -> None:
    from aotbuild.report.page import page_html

    destination.write(page_html(facts, texts).encode("utf-8"))
