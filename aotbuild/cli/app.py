"""All commands, and the one place where an error becomes a message and an exit code."""

from __future__ import annotations

import argparse
import os
import re
import sys
import traceback
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, NoReturn

from aotbuild.cli import github
from aotbuild.cli.build import build
from aotbuild.cli.command import Command, Group, UsageError, add_commands
from aotbuild.cli.diff import diff
from aotbuild.cli.doctor import doctor
from aotbuild.cli.ending import ended_early, put
from aotbuild.cli.exit_codes import (
    INTERNAL,
    OK,
    USAGE,
    code_of,
    missing_extra,
)
from aotbuild.cli.init import init
from aotbuild.cli.inspect import inspect
from aotbuild.cli.lock import lock
from aotbuild.cli.markdown import Markdown
from aotbuild.cli.merge import merge
from aotbuild.cli.output import Output, error_document, say
from aotbuild.cli.plan import plan
from aotbuild.cli.record import record
from aotbuild.cli.schema import schema
from aotbuild.cli.split import split
from aotbuild.cli.store import STORE
from aotbuild.cli.tune import tune
from aotbuild.cli.verify import verify
from aotbuild.report.words import os_error_text

_BUILDING = (init, record, plan, build, lock, tune, schema, STORE)
_INSPECTING = (inspect, diff, doctor, verify)
_RELEASING = (split, merge)
COMMANDS: tuple[Command | Group, ...] = (*_BUILDING, *_INSPECTING, *_RELEASING)

_DESCRIPTION = "Compile JAX functions ahead of time, as a manifest (aot.yaml) says."


class _Version(argparse.Action):
    """Prints the version, which only this option has to look up."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        put(sys.stdout, f"aotbuild, version {metadata.version('aotbuild')}\n")
        parser.exit()


class _Parser(argparse.ArgumentParser):
    """A parser that also tells CI of wrong arguments, and raises OSError if help is not written."""

    def error(self, message: str) -> NoReturn:
        tell_usage(self.prog, message)
        super().error(_no_commands(message))

    def _print_message(self, message: str, file: Any = None) -> None:
        put(file or sys.stderr, message)


def tell_usage(title: str, message: str) -> None:
    """Let CI show that a command was called with wrong arguments."""
    summary = Markdown()
    summary.line(message)
    found = [github.Annotation("error", message)]
    is_summarized = title.rpartition(" ")[2] in github.SUMMARIZED
    github.tell(title, found, summary if is_summarized else None, say, os.environ)


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    shape: Any = {
        "formatter_class": argparse.RawDescriptionHelpFormatter,
        "allow_abbrev": False,
    }
    parser = _Parser("aotbuild", description=_DESCRIPTION, **shape)
    parser.add_argument(
        "--version",
        action=_Version,
        nargs=0,
        default=argparse.SUPPRESS,
        help="Print the version.",
    )
    add_commands(parser, COMMANDS, shape)
    return parser


def run(arguments: Sequence[str]) -> int:
    """Run a command and return its exit code; with `--json` its document is printed once.

    SystemExit for wrong arguments, and for `--help`.
    """
    try:
        given = vars(make_parser().parse_args(arguments))
    except OSError as err:  # that prints the help, too
        return _fail(Output(), err, None)
    command, parser = given.pop("command"), given.pop("parser")
    output, manifest = Output(), given.get("manifest")
    try:
        code = command.run(output, **given) or OK
        output.finish(None)
    except UsageError as err:
        tell_usage(parser.prog, str(err))
        parser.exit(USAGE, f"{parser.prog}: error: {_no_commands(str(err))}\n")
    except (Exception, KeyboardInterrupt) as err:
        if missing_extra(err):
            raise
        code = _fail(output, err, manifest)
    summary = output.markdown if command.name in github.SUMMARIZED else None
    github.tell(f"aotbuild {command.name}", output.annotations, summary, say, os.environ)
    return code


def _fail(output: Output, error: BaseException, manifest: Path | None) -> int:
    code, message = code_of(error), _message(error)
    if os.environ.get("AOTBUILD_DEBUG") == "1":
        sys.stderr.write("".join(traceback.format_exception(error)))
    say(_no_commands(message))
    try:
        output.finish(error_document(error, code, message))
    except OSError as err:  # what failed first decides the exit code
        say(f"{err.filename}: {err.strerror}")
    output.markdown.line(message)
    output.annotations += github.of_error(error, message, manifest)
    return code


def _message(error: BaseException) -> str:
    code = code_of(error)
    if isinstance(error, KeyboardInterrupt):
        return ended_early(error)[1]
    if code == INTERNAL:
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


def _no_commands(message: str) -> str:
    """Return a message without lines that GitHub would take for a command, as of a file's name."""
    return re.sub(r"(^|[\r\n])(\s*)::", r"\1\2\\x3a\\x3a", message)
