"""Commands and their options: argparse, so that an image without the extra `build` has them."""

from __future__ import annotations

import argparse
import inspect
import itertools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

# Gets the `Output` and the arguments by keyword; returns an exit code, None for success.
Handler: TypeAlias = Callable[..., int | None]


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
    """A command: its name, a line for the list of all, its arguments, and what it does."""

    name: str
    summary: str
    arguments: tuple[Argument, ...]
    run: Handler

    @property
    def options(self) -> list[str]:
        """The names of its options, as `--out`."""
        names = (name for argument in self.arguments for name in argument.names)
        return [name for name in names if name.startswith("-")]

    def fill(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments to the parser of this command."""
        for argument in self.arguments:
            parser.add_argument(*argument.names, **argument.settings)
        parser.set_defaults(command=self, parser=parser)

    @property
    def description(self) -> str:
        """What `--help` says of it."""
        return inspect.cleandoc(self.run.__doc__ or "")


def command(
    summary: str, *arguments: Argument | tuple[Argument, ...]
) -> Callable[[Handler], Command]:
    """Make a command of a function, which gives it its name and its description."""
    groups = (each if isinstance(each, tuple) else (each,) for each in arguments)
    flat = tuple(itertools.chain(*groups))

    def decorate(run: Handler) -> Command:
        return Command(run.__name__.replace("_", "-"), summary, flat, run)

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
        found = "is a folder" if path.is_dir() else "does not exist"
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
    """Return the path of a file to write."""
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
        if not text.isdecimal() or int(text) < least:
            msg = f"expected a whole number, at least {least}, found {text!r}"
            raise argparse.ArgumentTypeError(msg)
        return int(text)

    return number


def seconds(text: str) -> float:
    """Return a time in seconds."""
    try:
        found = float(text)
    except ValueError:
        found = 0.0
    if not 0 < found < float("inf"):
        msg = f"expected a number of seconds, more than 0, found {text!r}"
        raise argparse.ArgumentTypeError(msg)
    return found
