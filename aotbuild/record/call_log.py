"""Call logs: which functions programs called, with which signatures, how often and how slowly.

A call log is a file of lines, each a JSON object, that any number of processes append to. A line
stands for itself, so that a program that is killed loses only what it had not written; a line that
is cut off is ignored. Reading adds up what belongs together:

============  ======================================================================================
`call log`    the version of this format; the first line that each process writes
`function`    a function, when it is first called (`ObservedFunction`)
`call`        a signature of a function, when it is first called (`ObservedCall`)
`verdict`     what a package has for a call: empty if an executable serves it, else why none does
`tally`       how often a signature was called since the last tally, and how long first calls took
`outside`     the same of a line that runs operations outside of any jit
============  ======================================================================================
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import MISSING, dataclass, field, fields
from itertools import count
from pathlib import Path
from typing import Any

from aotbuild.errors import InvalidCallLog
from aotbuild.format.canonical import canonical_json, sha256_hex
from aotbuild.format.files import MOST_TEXT, open_regular

VERSION = 1
_KEY_DIGITS = 16


@dataclass(frozen=True)
class ObservedFunction:
    """A function that was called, as its jit knows it.

    Attributes:
        call: `module:qualname`, whether or not it leads to the function.
        problem: Why no manifest can name it; empty if one can.
        file: The path of its source; empty if unknown.
        line: The line there that makes it, from 1; 0 if unknown.
        positional: The names of its parameters that may be passed by position, in order.
        keywords: The names of those that must be passed by name.
        static: The parameters that its jit takes as static.
        donate: The parameters that its jit donates.
        wrap: The jit whose meaning its calls have, as a manifest names it; empty for `jax.jit`.
        options: What else its jit was told, as the manifest's options of a function.
    """

    call: str
    problem: str = ""
    file: str = ""
    line: int = 0
    positional: tuple[str, ...] = ()
    keywords: tuple[str, ...] = ()
    static: tuple[str, ...] = ()
    donate: tuple[str, ...] = ()
    wrap: str = ""
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """The identity of this function in a call log; an edit may move its lines."""
        return _key({**self.to_json(), "file": "", "line": 0})

    @property
    def package(self) -> str:
        """The import package that has it."""
        return self.call.partition(":")[0].partition(".")[0]

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form; the inverse of `from_json`."""
        return _plain(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> ObservedFunction:
        """Read what `to_json` wrote."""
        names = ("positional", "keywords", "static", "donate")
        return cls(**{**data, **{name: tuple(data.get(name, ())) for name in names}})


@dataclass(frozen=True)
class ObservedArgument:
    """One argument of a call that is not static.

    Attributes:
        name: The name of its parameter.
        spec: What a manifest says of it, as plain values of YAML; see `record.specs`.
        problem: Why a manifest cannot say what it is; empty if one can.
    """

    name: str
    spec: Any
    problem: str = ""


@dataclass(frozen=True)
class ObservedCall:
    """A signature that a function was called with.

    Attributes:
        function: The key of the `ObservedFunction`.
        arguments: What was passed, in the order of the parameters, static ones left out.
        statics: (name, encoded value) of the static arguments, sorted by name; see `format.values`.
        config: Settings of jax that decide what is traced and are not at their defaults.
        env: Environment variables that decide what is traced, as far as they are set.
        platform: Where it ran, as `cpu`; empty if unknown.
        problem: Why no manifest can have this signature; empty if one can.
    """

    function: str
    arguments: tuple[ObservedArgument, ...]
    statics: tuple[tuple[str, Any], ...] = ()
    config: dict[str, Any] = field(default_factory=dict)
    env: dict[str, str] = field(default_factory=dict)
    platform: str = ""
    problem: str = ""

    @property
    def key(self) -> str:
        """The identity of this signature in a call log."""
        return _key(self.to_json())

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form; the inverse of `from_json`."""
        return {**_plain(self), "arguments": [_plain(argument) for argument in self.arguments]}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> ObservedCall:
        """Read what `to_json` wrote."""
        arguments = tuple(ObservedArgument(**each) for each in data["arguments"])
        statics = tuple((name, value) for name, value in data.get("statics", ()))
        return cls(**{**data, "arguments": arguments, "statics": statics})


@dataclass(frozen=True)
class Tally:
    """How often a signature was called, and how many seconds its first calls took."""

    calls: int = 0
    seconds: float = 0.0

    def __add__(self, other: Tally) -> Tally:
        return Tally(self.calls + other.calls, self.seconds + other.seconds)


@dataclass(frozen=True)
class CallLog:
    """What files hold, added up. Functions and calls are in the order of their first call."""

    functions: dict[str, ObservedFunction] = field(default_factory=dict)
    calls: dict[str, ObservedCall] = field(default_factory=dict)
    tallies: dict[str, Tally] = field(default_factory=dict)
    verdicts: dict[str, str] = field(default_factory=dict)
    outside: dict[str, Tally] = field(default_factory=dict)

    def of(self, function: str) -> dict[str, ObservedCall]:
        """Return the calls of a function, given by its key."""
        return {key: call for key, call in self.calls.items() if call.function == function}

    def tally(self, calls: Iterable[str]) -> Tally:
        """Return the sum for some calls, given by their keys."""
        return sum((self.tallies.get(key, Tally()) for key in calls), Tally())


def read_call_log(path: Path) -> CallLog:
    """Return what a file holds; OSError, or InvalidCallLog for another file."""
    found = CallLog()
    for number, (kind, data) in enumerate(_lines(path), 1):
        try:
            _add(found, kind, data)
        except (LookupError, TypeError, ValueError, AttributeError) as err:
            place = f"{path}:{number}"
            raise InvalidCallLog(place, f"{kind}: {type(err).__name__}: {err}") from err
    return found


class CallLogWriter:
    """Appends lines to a call log. After a first failure it says so once, and writes no more."""

    def __init__(self, path: Path) -> None:
        """Begin; FileExistsError if there is a file that is not a call log."""
        self.path = path.absolute()
        self._is_new, self._has_failed = True, False
        if self.path.exists():
            with open_regular(self.path) as file:
                beginning = file.read(len(FIRST_LINE))
            if not FIRST_LINE.startswith(beginning):
                what = "is there already and is no call log; name another"
                raise FileExistsError(errno.EEXIST, what, str(path))

    def write(self, lines: Iterable[bytes]) -> None:
        """Append lines; a full disk does not stop the program."""
        data = b"".join(lines)
        if self._has_failed or not data:
            return
        try:
            self._append(FIRST_LINE + data if self._is_new else data)
            self._is_new = False
        except OSError as err:
            self._has_failed = True
            why = err.strerror or str(err)
            tell(f"{self.path}: {why}; this process records nothing more")

    def _append(self, data: bytes) -> None:
        # Opened each time: programs close descriptors they do not know, and fork. One write of a
        # file that is appended to is not mixed with those of other processes.
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        descriptor = os.open(self.path, flags, 0o644)
        try:
            if os.write(descriptor, data) < len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        finally:
            os.close(descriptor)


def tell(text: str) -> None:
    """Write a line to standard error, which a daemon may have closed."""
    with contextlib.suppress(AttributeError, OSError, ValueError):
        sys.stderr.write(f"aotbuild: {text}\n")


def log_line(kind: str, **data: Any) -> bytes:
    """Return a line of one of the kinds above; `_add` says what data each kind has."""
    return canonical_json({"kind": kind, **data}) + b"\n"


FIRST_LINE = log_line("call log", version=VERSION)


def _lines(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    with open_regular(path) as file:
        for number in count(1):
            line, place = file.readline(MOST_TEXT + 1), f"{path}:{number}"
            if len(line) > MOST_TEXT:
                raise InvalidCallLog(place, f"a line of over {MOST_TEXT:,} bytes")
            if not line:
                return
            if number == 1 and line != FIRST_LINE:
                raise InvalidCallLog(place, repr(line[:60]))
            try:
                data = json.loads(line)
                kind = data.pop("kind")
            except (ValueError, KeyError, AttributeError, TypeError, RecursionError):
                continue  # cut off: a process was killed while it wrote, or the disk was full
            yield kind, data


def _add(found: CallLog, kind: str, data: dict[str, Any]) -> None:
    if kind == "function":
        function = ObservedFunction.from_json(data["function"])
        found.functions[function.key] = function
    elif kind == "call":
        call = ObservedCall.from_json(data["call"])
        found.calls.setdefault(call.key, call)
    elif kind == "verdict":
        found.verdicts[data["of"]] = str(data["verdict"])
    elif kind in ("tally", "outside"):
        tally, of = Tally(int(data["calls"]), float(data["seconds"])), str(data["of"])
        tallies = found.tallies if kind == "tally" else found.outside
        tallies[of] = tallies.get(of, Tally()) + tally
    elif kind != "call log":
        msg = "an unknown kind of line"
        raise ValueError(msg)


def _key(data: dict[str, Any]) -> str:
    return sha256_hex(canonical_json(data))[:_KEY_DIGITS]


def _plain(value: Any) -> dict[str, Any]:
    """Return the fields of a dataclass that are not at their defaults."""
    found = {}
    for each in fields(value):
        made = each.default if each.default_factory is MISSING else each.default_factory()
        if getattr(value, each.name) != made:
            found[each.name] = getattr(value, each.name)
    return found
