"""`aotbuild record`: run a program, and make a manifest of what it called, or check a package."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from aotbuild.cli.command import UsageError, argument, command, existing_file, flag
from aotbuild.cli.exit_codes import FAILED
from aotbuild.cli.output import Output, say
from aotbuild.errors import AotbuildError
from aotbuild.format.files import write_whole
from aotbuild.format.temporary import temporary_folder
from aotbuild.report.words import plural, printable

if TYPE_CHECKING:
    from aotbuild.record.call_log import CallLog

_MOST_OUTSIDE = 5  # lines that are named
_STDERR = 2  # its number, also where sys.stderr is something else
_NOTHING = (
    "nothing was recorded: no process of the command imported jax and called a jitted function. "
    "Python started with -I, -E or -S does not read PYTHONPATH, by which processes are watched."
)


@command(
    "Run a program, and make a manifest of what it calls.",
    argument(
        "--out",
        type=Path,
        default=Path("aot.yaml"),
        metavar="MANIFEST",
        help="The manifest to write; an existing one stays as it is. Default: aot.yaml.",
    ),
    argument(
        "--log",
        type=Path,
        metavar="FILE",
        help="Keep the call log, and write no manifest; an existing log is added to.",
    ),
    argument(
        "--from",
        dest="given",
        type=existing_file,
        metavar="FILE",
        help="Run nothing: make the manifest of this call log.",
    ),
    argument(
        "--check",
        default="",
        metavar="PLACE",
        help="Write no manifest: say which calls no executable of this package, wheel or _aot "
        "folder serves, and exit with 5 if there are any.",
    ),
    argument("--package", default="", metavar="NAME", help="The import package of a new manifest."),
    flag("--dry-run", help="Print the manifest, and leave the file as it is."),
    argument("program", nargs="...", metavar="-- COMMAND ..."),
)
def record(
    output: Output,
    out: Path,
    log: Path | None,
    given: Path | None,
    check: str,
    package: str,
    dry_run: bool,
    program: list[str],
) -> int | None:
    """Run COMMAND, and watch every call of a jitted function in all of its Python processes.

    Then write a manifest of what was called, or print the entries for an existing one, and what no
    manifest can name. The exit code is that of COMMAND.
    """
    program = program[1:] if program[:1] == ["--"] else program
    if bool(program) == bool(given):
        msg = "give a command after --, as `aotbuild record -- python serve.py`, or --from FILE"
        raise UsageError(msg)
    if given and (check or log):
        msg = "--from runs nothing: leave out --check and --log"
        raise UsageError(msg)
    if given:
        found = _read(given)
        _outside(output, found)
        _manifest(output, found, out, package, dry_run=dry_run)
        return None
    with nullcontext() if log else temporary_folder(what="record-") as folder:
        place = log or Path(str(folder), "calls.jsonl")
        code = _run(program, place, check, stdout=_STDERR if output.as_json else None)
        found = _read(place)
        output.document.update(program=program, exit_code=code)
        output.text(_summary(found))
        _outside(output, found)
        if check:
            code = code or _verdicts(output, found, check)
        elif found.calls and not log:
            try:
                _manifest(output, found, out, package, dry_run=dry_run)
            except AotbuildError as err:
                if not code:
                    raise
                say(str(err))  # the command's own exit code says more
    return code or None


def _run(program: list[str], log: Path, check: str, *, stdout: int | None) -> int:
    """Run a command; OSError if it cannot be started or the call log not be written."""
    from aotbuild.record.call_log import CallLogWriter
    from aotbuild.record.recorder import run_watched

    if log.exists() and not log.is_file():
        msg = f"--log: expected a file, found {printable(str(log))}"
        raise UsageError(msg)
    if shutil.which(program[0]) is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), program[0])
    CallLogWriter(log)  # raises for another file
    log.open("ab").close()  # and one that cannot be written, before the command runs
    place = str(Path(check).absolute()) if check and Path(check).exists() else check
    code = run_watched(program, log, check=place, stdout=stdout)
    if code:
        say(f"the command ended with {code}; what was seen until then is recorded")
    return code


def _read(log: Path) -> CallLog:
    from aotbuild.record.call_log import CallLog, read_call_log

    return read_call_log(log) if log.exists() else CallLog()


def _summary(found: CallLog) -> str:
    if not found.calls:
        return _NOTHING
    tally = found.tally(found.calls)
    functions = plural(len(found.functions), "function")
    calls = f"{plural(tally.calls, 'call')} of {functions}"
    return f"{calls}, {tally.seconds:.1f} s of first calls"


def _outside(output: Output, found: CallLog) -> None:
    """Print which lines run operations outside of any jit, those that a loop repeats first."""
    ranked = sorted(found.outside.items(), key=lambda item: (-item[1].calls, -item[1].seconds))
    output.document["outside"] = [
        {"place": place, "times": tally.calls, "first_call_seconds": tally.seconds}
        for place, tally in ranked
    ]
    if ranked:
        output.text("outside of any jit, where JAX compiles a program for each operation:")
    for place, tally in ranked[:_MOST_OUTSIDE]:
        times = plural(tally.calls, "time")
        output.text(printable(f"  {place}: {times}, {tally.seconds:.1f} s of first calls"))
    if (more := len(ranked) - _MOST_OUTSIDE) > 0:
        output.text(f"  and {plural(more, 'more line')} (--json has all)")


def _manifest(output: Output, found: CallLog, out: Path, package: str, *, dry_run: bool) -> None:
    """Write what was called into the manifest."""
    from aotbuild.record.check import missing_in_clone
    from aotbuild.record.proposal import propose

    proposal = propose(found, out, package)
    output.document["proposal"] = proposal.to_json()
    for line in proposal.lines:
        output.text(printable(line) if "\n" not in line else line)
    if dry_run:
        if proposal.is_new:  # the entries for an existing one are among the lines
            output.text(f"\n{proposal.text}".rstrip("\n"))
        return
    for path, text in proposal.files.items():
        write_whole(path, text.encode())
    written = [str(path) for path in proposal.files]
    output.document["written"] = written
    files = ", ".join(map(printable, written))
    output.text(f"written: {files}" if written else "nothing was written")
    modules = {name for entry in proposal.entries.values() for name in entry.modules}
    try:
        problem = missing_in_clone(out.parent, sorted(modules))
    except subprocess.TimeoutExpired as err:
        problem, seconds = "", f"{err.timeout:.0f} s"
        taken = f"importing {', '.join(sorted(modules))} took over {seconds}"
        output.text(f"not known if a build of a fresh clone works: {taken}")
    if problem:
        output.document["missing_in_clone"] = problem
        output.text(printable(f"a build of a fresh clone fails: {problem}"))
        output.text("put what is missing into the repository, or name another tree under like:")


def _verdicts(output: Output, found: CallLog, place: str) -> int:
    """Print which calls no executable serves; return the exit code."""
    from aotbuild.record.check import unserved

    missing = unserved(found)
    checked = len(found.verdicts)
    output.document["checked"] = {"place": place, "signatures": checked, "not_served": missing}
    for each in missing:
        output.text()
        calls = plural(each["calls"], "call")
        output.text(printable(f"{each['call']}({each['signature']}): {calls}"))
        for line in each["why"].split("\n"):
            output.text(f"  {line}")
    output.text()
    output.text(f"{place}: {checked - len(missing)} of {plural(checked, 'signature')} served")
    return FAILED if missing else 0
