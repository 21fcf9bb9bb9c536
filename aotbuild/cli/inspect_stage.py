"""One kept stage for `aotbuild inspect`: found by name, checked, and printed as it is."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from aotbuild.cli.output import Output
from aotbuild.spec.stages import STAGES

if TYPE_CHECKING:
    from aotbuild.report.facts import PackageFacts
    from aotbuild.report.stages import Candidate
    from aotbuild.runtime.source import Source

F = TypeVar("F", bound=Callable[..., Any])

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


def stage_options(command: F) -> F:
    """Add the options that `wanted_stage` reads."""
    told = {
        "jaxpr": "the jaxpr",
        "stablehlo": "the StableHLO",
        "hlo": "the optimized HLO",
        "cost": "XLA's cost analysis",
        "memory": "XLA's memory analysis",
    }
    options = [
        *(click.option(f"--{n}", is_flag=True, help=f"Print {told[n]} instead.") for n in STAGES),
        click.option("--signature", metavar="LABEL", help="Of this signature, as batch=8."),
        click.option("--target", metavar="T", help="For this target, as cpu:x86-64-v3."),
        click.option("--jaxlib", metavar="V", help="For this version of jaxlib, as 0.10.2."),
        click.option(
            "--stages",
            "file",
            type=click.Path(dir_okay=False, path_type=Path),
            help="The file of kept stages; default: the one beside PLACE.",
        ),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def wanted_stage(options: dict[str, Any]) -> Wanted | None:
    """Return which stage the options ask for, if any; UsageError for two, or names without one."""
    chosen = [name for name in STAGES if options[name]]
    names = {name: options[name] for name in ("signature", "target", "jaxlib", "file")}
    if len(chosen) > 1:
        msg = f"{' and '.join(f'--{name}' for name in chosen)} exclude each other"
        raise click.UsageError(msg)
    if not chosen and any(value is not None for value in names.values()):
        flags = ", ".join(f"--{name}" for name in STAGES)
        msg = f"--signature, --target, --jaxlib and --stages go with one of {flags}"
        raise click.UsageError(msg)
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
        raise click.UsageError(msg)
    ones = different(found, wanted.stage)
    if len(ones) > 1:
        msg = f"{len(ones)} different texts fit --{wanted.stage}; add one of\n{_listing(ones)}"
        raise click.UsageError(msg)
    return ones[0]


def _print_bytes(data: bytes) -> None:
    """Write a text to stdout: byte for byte, but harmless where it is a terminal."""
    from aotbuild.report.words import printable

    if sys.stdout.isatty():
        lines = data.decode("utf-8", "replace").split("\n")
        click.echo("\n".join(printable(line) for line in lines), nl=False)
    else:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()


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
