"""`aotbuild record`: run a program, and make a manifest of what it called."""

from __future__ import annotations

import argparse
import errno
import os
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from aotbuild.cli.command import (
    UsageError,
    argument,
    command,
    existing_file,
    flag,
    whole_number,
)
from aotbuild.cli.output import Output, say
from aotbuild.errors import AotbuildError
from aotbuild.report.words import plural, printable

if TYPE_CHECKING:
    from aotbuild.record.recorded import ProposalOptions
    from aotbuild.record.recording import Recording

_MANIFEST, _RECORDING = Path("aot.yaml"), Path("aot.recording.jsonl")
_STDERR = 2  # its number, also where sys.stderr is something else
_NOTHING = (
    "nothing was recorded: no process of the command imported jax and called a jitted function. "
    "Python started with -I, -E or -S does not read PYTHONPATH, by which processes are watched."
)


def percent(text: str) -> float:
    """Return the part of 1 that `25%` is."""
    match = re.fullmatch(r"([0-9]{1,2}(?:\.[0-9]{1,6})?)%", text)
    if match is None:
        msg = f"expected a percentage below 100, as 25%, found {text!r}"
        raise argparse.ArgumentTypeError(msg)
    return float(match[1]) / 100


@command(
    "Run a program, and make a manifest of what it calls.",
    argument(
        "--out",
        type=Path,
        default=_MANIFEST,
        metavar="MANIFEST",
        help="The manifest to write or to extend. Default: aot.yaml.",
    ),
    argument(
        "--recording",
        type=Path,
        default=_RECORDING,
        metavar="FILE",
        help="Where the recording is kept. Default: aot.recording.jsonl.",
    ),
    flag("--append", help="Add to the recording; without it, the recording begins anew."),
    flag("--no-manifest", help="Record only."),
    argument(
        "--from",
        dest="given",
        type=existing_file,
        metavar="FILE",
        help="Run nothing: make the manifest of this recording.",
    ),
    argument("--package", default="", metavar="NAME", help="The import package of a new manifest."),
    argument(
        "--buckets",
        type=whole_number(1),
        default=8,
        metavar="N",
        help="Pad a dim of more sizes to at most so many. Default: 8.",
    ),
    argument(
        "--max-waste",
        type=percent,
        default=0.25,
        metavar="PERCENT",
        help="How much of the work may be padding, where fewer buckets do. Default: 25%%.",
    ),
    flag("--dry-run", help="Print the manifest, and leave the file as it is."),
    argument("program", nargs=argparse.REMAINDER, metavar="-- COMMAND ..."),
)
def record(
    output: Output,
    out: Path,
    recording: Path,
    append: bool,
    no_manifest: bool,
    given: Path | None,
    package: str,
    buckets: int,
    max_waste: float,
    dry_run: bool,
    program: list[str],
) -> int | None:
    """Run COMMAND, and watch every call of a jitted function in all of its Python processes.

    Then write what was called into the manifest, and print what was added and what no manifest can
    name. Entries and comments that are there stay. The exit code is that of COMMAND.
    """
    from aotbuild.record.recorded import ProposalOptions
    from aotbuild.record.recording import Recording, read_recording

    program = program[1:] if program[:1] == ["--"] else program
    _check(program, given, no_manifest)
    code = 0
    if not given:
        # With --json, stdout has one document and nothing else.
        stdout = _STDERR if output.as_json else None
        code = _run(program, recording, append=append, stdout=stdout)
    place = given or recording
    found = read_recording(place) if place.exists() else Recording()
    output.document.update(program=program or None, exit_code=code, recording=str(place))
    if not found.calls:
        output.text(_NOTHING)
    else:
        output.text(_summary(place, found))
        if not no_manifest:
            options = ProposalOptions(package, buckets, max_waste)
            try:
                _propose(output, found, out, options, dry_run=dry_run)
            except AotbuildError as err:
                if not code:
                    raise
                say(str(err))  # the command's own exit code says more
    return code or None


def _check(program: list[str], given: Path | None, no_manifest: bool) -> None:
    if bool(program) == bool(given):
        msg = "give a command after --, as `aotbuild record -- python serve.py`, or --from FILE"
        raise UsageError(msg)
    if given and no_manifest:
        msg = "--from makes a manifest, and --no-manifest makes none; leave one out"
        raise UsageError(msg)


def _run(program: list[str], recording: Path, *, append: bool, stdout: int | None) -> int:
    """Run a command; OSError if it cannot be started or the recording not be written."""
    from aotbuild.record.command import run_watched

    if recording.exists() and not recording.is_file():
        msg = f"--recording: expected a file, found {printable(str(recording))}"
        raise UsageError(msg)
    if shutil.which(program[0]) is None:  # the recording that is there stays
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), program[0])
    with recording.open("ab" if append else "wb"):
        pass
    code = run_watched(program, recording, stdout)
    if code:
        say(f"the command ended with {code}; what was seen until then is recorded")
    return code


def _summary(place: Path, found: Recording) -> str:
    tally, processes = found.tally(found.calls), len(found.programs)
    where = "1 process" if processes == 1 else f"{processes} processes"
    return (
        f"{printable(str(place))}: {plural(tally.calls, 'call')} of "
        f"{plural(len(found.functions), 'function')} in {where}, "
        f"{tally.seconds:.1f} s to trace and compile"
    )


def _propose(
    output: Output, found: Recording, out: Path, options: ProposalOptions, *, dry_run: bool
) -> None:
    from aotbuild.record.recorded import update_manifest, write

    proposal = update_manifest(found, out, options)
    output.document["proposal"] = proposal.to_json()
    for line in proposal.lines:
        output.text(printable(line))
    if dry_run:
        output.text()
        output.text(proposal.text.rstrip("\n"))
        return
    written = [str(path) for path in write(proposal)]
    output.document["written"] = written
    output.text(
        f"written: {', '.join(map(printable, written))}" if written else "nothing to change"
    )
