"""All commands, and the one place where an error becomes a message and an exit code."""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from collections.abc import Iterator, Sequence
from importlib import metadata
from itertools import chain
from typing import Any

from aotbuild.cli.build import build
from aotbuild.cli.command import Command, Group, UsageError, add_commands
from aotbuild.cli.diff import diff
from aotbuild.cli.doctor import doctor
from aotbuild.cli.exit_codes import INTERNAL, MEANINGS, OK, USAGE, code_of, missing_extra
from aotbuild.cli.init import init
from aotbuild.cli.inspect import inspect
from aotbuild.cli.lock import lock
from aotbuild.cli.merge import merge
from aotbuild.cli.output import Output, error_document, say
from aotbuild.cli.plan import plan
from aotbuild.cli.record import record
from aotbuild.cli.schema import schema
from aotbuild.cli.split import split
from aotbuild.cli.store import STORE
from aotbuild.cli.streams import put
from aotbuild.cli.tune import tune
from aotbuild.cli.verify import verify
from aotbuild.format.words import os_error_text

COMMANDS: dict[str, tuple[Command | Group, ...]] = {
    "start": (init, record, plan, build),
    "look": (inspect, doctor, verify, diff),
    "release": (lock, split, merge),
    "team": (STORE, tune, schema),
}

# Every environment variable of aotbuild. These are read where something is built.
OF_BUILDS = {
    "AOTBUILD_MANIFEST": "the manifest of the build hook, instead of that in pyproject.toml",
    "AOTBUILD_JOBS": "how many compilers work side by side; default: one for each CPU",
    "AOTBUILD_TIMEOUT": "seconds that one job may take; default: 3600",
    "AOTBUILD_EXECUTOR": "where they work: local, or dask://HOST:PORT",
    "AOTBUILD_STORE": "the folder or URL of the store, or off",
    "AOTBUILD_TOOLCHAINS": "the folder of the environments that uv makes",
    "AOTBUILD_SHRINK": "off: CPU executables stay as XLA wrote them (worker.thunk_rewrite)",
}
# Read where executables are loaded and called, and by the command line.
OF_CALLS = {
    "AOTBUILD_FALLBACK": "none, portable or jit: what a call without an executable does",
    "AOTBUILD_GUARD": "raise, log or count: what a compilation does in the whole process",
    "AOTBUILD_DEBUG": "1: commands show the traceback of an error",
}
# Set by aotbuild for the processes that it starts.
OF_CHILDREN = {
    "AOTBUILD_BUILDING": "1 in compilers: decorated functions call their source",
    "AOTBUILD_RECORD": "the call log of watched processes, and what checks their calls",
}


def _listed(title: str, commands: Sequence[Command | Group]) -> Iterator[str]:
    """Yield the lines of a group of commands in `--help`."""
    yield f"{title}:"
    yield from (f"  {each.name:<10} {each.summary}" for each in commands)
    yield ""


_DESCRIPTION = "Compile JAX functions ahead of time, as a manifest (aot.yaml) says."
_EPILOG = "\n".join(
    (
        *(line for title, commands in COMMANDS.items() for line in _listed(title, commands)),
        "exit codes:",
        *(f"  {code:<4} {text}" for code, text in MEANINGS.items()),
        "",
        "environment variables:",
        *(f"  {name:<21} {text}" for name, text in (OF_BUILDS | OF_CALLS).items()),
    )
)


class _Version(argparse.Action):
    """Prints the version, which only this option has to look up."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        put(sys.stdout, f"aotbuild, version {metadata.version('aotbuild')}\n")
        parser.exit()


class _Parser(argparse.ArgumentParser):
    """A parser that raises OSError if help is not written."""

    def _print_message(self, message: str, file: Any = None) -> None:
        put(file or sys.stderr, message)


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    shape: Any = {"formatter_class": argparse.RawDescriptionHelpFormatter, "allow_abbrev": False}
    usage = "aotbuild [-h] [--version] COMMAND ..."
    parser = _Parser("aotbuild", usage, description=_DESCRIPTION, epilog=_EPILOG, **shape)
    parser.add_argument(
        "--version", action=_Version, nargs=0, default=argparse.SUPPRESS, help="Print the version."
    )
    add_commands(parser, chain(*COMMANDS.values()), shape, is_listed=False)
    return parser


def run(arguments: Sequence[str]) -> int:
    """Run a command and return its exit code; with `--json` its document is printed once.

    SystemExit for wrong arguments, and for `--help`.
    """
    try:
        given = vars(make_parser().parse_args(arguments))
    except OSError as err:  # that prints the help, too
        return _fail(Output(), err)
    command, parser = given.pop("command"), given.pop("parser")
    output = Output(given.pop("as_json", False))
    try:
        code = command.run(output, **given) or OK
        output.finish(None)
    except UsageError as err:
        parser.exit(USAGE, f"{parser.prog}: error: {err}\n")
    except (Exception, KeyboardInterrupt) as err:  # noqa: BLE001 (it becomes an exit code)
        return _fail(output, err)
    return code


def _fail(output: Output, error: BaseException) -> int:
    missing = missing_extra(error)
    code = USAGE if missing else code_of(error)
    message = _message(error, missing)
    if os.environ.get("AOTBUILD_DEBUG") == "1":
        sys.stderr.write("".join(traceback.format_exception(error)))
    say(message)
    try:
        output.finish(error_document(error, code, message))
    except OSError as err:  # what failed first decides the exit code
        say(f"{err.filename}: {err.strerror}")
    return code


def _message(error: BaseException, missing: tuple[str, str] | None) -> str:
    if missing:
        name, install = missing
        return f"aotbuild: this command needs {name}, which is not installed; install {install}"
    if isinstance(error, KeyboardInterrupt):
        return "interrupted; nothing is half-written"
    if code_of(error) == INTERNAL:
        return (
            f"unexpected error, please report it: {type(error).__name__}: {error}\n"
            "AOTBUILD_DEBUG=1 shows where it happened."
        )
    if isinstance(error, MemoryError):
        return (
            "out of memory: this process may not take more of it (ulimit -v, a container's limit)"
        )
    if isinstance(error, OSError) and error.filename is not None:
        return os_error_text(error)
    return str(error)
