"""Commands and their options: argparse, so that an image without the extra `build` has them."""

from __future__ import annotations

import argparse
import inspect
import itertools
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

# Gets the `Output` and the arguments by keyword; returns an exit code, None for success.
Handler: TypeAlias = Callable[..., int | None]
# Manifests and source files: `build --timings aot.yaml` is a slip.
_SOURCES = (".py", ".toml", ".yaml", ".yml")


class UsageError(Exception):
    """An option has no such value, or the arguments do not fit together; the text says why."""

    def __init__(self, message: str, option: str = "") -> None:
        super().__init__(f"{option}: {message}" if option else message)


@dataclass(frozen=True)
class Argument:
    """What `ArgumentParser.add_argument` gets."""

    names: tuple[str, ...]
    settings: dict[str, Any]


@dataclass(frozen=True)
class Command:
    """A command: its name, a line for the list of all, its arguments, and what it does.

    Each has `--json`, which its `Output` obeys.
    """

    name: str
    summary: str
    arguments: tuple[Argument, ...]
    run: Handler

    @property
    def options(self) -> list[str]:
        """The names of its options, as `--out`."""
        names = (name for argument in self.arguments for name in argument.names)
        return [name for name in names if name.startswith("-")]

    def fill(self, parser: argparse.ArgumentParser, _: Mapping[str, Any]) -> None:
        """Add the arguments to the parser of this command."""
        for argument in (*self.arguments, JSON):
            parser.add_argument(*argument.names, **argument.settings)
        parser.set_defaults(command=self, parser=parser)

    @property
    def description(self) -> str:
        """What `--help` says of it."""
        return inspect.cleandoc(self.run.__doc__ or "")


@dataclass(frozen=True)
class Group:
    """Commands under one name, as `store prune`."""

    name: str
    summary: str
    description: str
    commands: tuple[Command, ...]

    def fill(self, parser: argparse.ArgumentParser, shape: Mapping[str, Any]) -> None:
        """Add the commands to the parser of this group."""
        add_commands(parser, self.commands, shape)


def add_commands(
    parser: argparse.ArgumentParser,
    commands: Iterable[Command | Group],
    shape: Mapping[str, Any],
    *,
    is_listed: bool = True,
) -> None:
    """Give a parser a subparser for each command; `shape` is what all parsers are made with.

    `is_listed`: argparse lists them in the help; it knows no groups of them.
    """
    title = {"title": "commands"} if is_listed else {"help": argparse.SUPPRESS}
    subparsers = parser.add_subparsers(metavar="COMMAND", required=True, prog=parser.prog, **title)
    for each in commands:
        own = {"description": each.description, **shape}
        own |= {"help": each.summary} if is_listed else {}
        each.fill(subparsers.add_parser(each.name, **own), shape)


def command(
    summary: str, *arguments: Argument | tuple[Argument, ...]
) -> Callable[[Handler], Command]:
    """Make a command of a function, which gives it its name and its description."""
    groups = (each if isinstance(each, tuple) else (each,) for each in arguments)
    flat = tuple(itertools.chain(*groups))

    def decorate(run: Handler) -> Command:
        return Command(run.__name__.strip("_").replace("_", "-"), summary, flat, run)

    return decorate


def argument(*names: str, **settings: Any) -> Argument:
    """Return an argument, as `ArgumentParser.add_argument` takes it."""
    return Argument(names, settings)


def flag(name: str, **settings: Any) -> Argument:
    """Return an option without a value."""
    return Argument((name,), {"action": "store_true", **settings})


JSON = flag("--json", dest="as_json", help="Print one JSON document.")


# --- types of values ------------------------------------------------------------------------------


def existing_file(text: str) -> Path:
    """Return the path of a file that exists."""
    path = Path(text)
    if not path.is_file():
        other = "is neither a file nor a folder" if path.exists() else "does not exist"
        found = "is a folder" if path.is_dir() else other
        msg = f"{text} {found}; expected a file"
        raise argparse.ArgumentTypeError(msg)
    return path


def existing_place(text: str) -> Path:
    """Return the path of a file or folder that exists."""
    path = Path(text)
    if not path.exists():
        msg = f"{text} does not exist"
        raise argparse.ArgumentTypeError(msg)
    return path


def existing_folder(text: str) -> Path:
    """Return the path of a folder that exists."""
    path = existing_place(text)
    if not path.is_dir():
        msg = f"{text} is a file; expected a folder"
        raise argparse.ArgumentTypeError(msg)
    return path


def new_file(text: str) -> Path:
    """Return the path of a file to write; not that of a manifest or a source file."""
    if Path(text).suffix in _SOURCES and Path(text).exists():
        msg = f"{text} exists, and would be overwritten; expected a new file"
        raise argparse.ArgumentTypeError(msg)
    return _new(text, Path(text).is_dir(), "is a folder; expected a file")


def new_folder(text: str) -> Path:
    """Return the path of a folder to write to."""
    return _new(text, Path(text).is_file(), "is a file; expected a folder")


def _new(text: str, is_other: bool, problem: str) -> Path:
    if is_other:
        msg = f"{text} {problem}"
        raise argparse.ArgumentTypeError(msg)
    return Path(text)


def whole_number(least: int) -> Callable[[str], int]:
    """Return the type of whole numbers that are not less than `least`."""

    def number(text: str) -> int:
        if not re.fullmatch("[0-9]{1,9}", text) or int(text) < least:
            msg = f"expected a whole number, at least {least}, found {text!r}"
            raise argparse.ArgumentTypeError(msg)
        return int(text)

    return number


def seconds(text: str) -> float:
    """Return a time in seconds."""
    try:
        found = float(text) if text.isascii() else 0.0
    except ValueError:
        found = 0.0
    if not 0 < found < float("inf"):
        msg = f"expected a number of seconds, more than 0, found {text!r}"
        raise argparse.ArgumentTypeError(msg)
    return found


_BYTES = {
    "B": 1,
    **{f"{prefix}{unit}": 1000**n for n, prefix in enumerate("kMGT", 1) for unit in ("", "B")},
    **{f"{prefix}iB": 1024**n for n, prefix in enumerate("KMGT", 1)},
}
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}


def size(text: str) -> int:
    """Return a number of bytes, as `5GB` or `512MiB` say it; 0 needs no unit."""
    return (
        0 if text == "0" else int(_with_unit(text, _BYTES, "a size with a unit, as 5GB or 512MiB"))
    )


def age(text: str) -> float:
    """Return a time in seconds, as `30d` or `12h` say it."""
    return _with_unit(text, _SECONDS, "an age, as 8w, 30d, 12h or 15m")


def _with_unit(text: str, units: Mapping[str, int], expected: str) -> float:
    match = re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{1,9})?) ?([A-Za-z]*)", text.strip())
    unit = match and next((u for u in units if u.lower() == match[2].lower()), None)
    if match is None or unit is None:
        msg = f"expected {expected}, found {text!r}"
        raise argparse.ArgumentTypeError(msg)
    return float(match[1]) * units[unit]
