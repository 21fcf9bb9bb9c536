"""Recordings: which functions programs called, with which signatures, how often and how slowly.

A recording is a file of lines, each a JSON object, that any number of processes append to. A line
stands for itself, so that a program that is killed loses only what it had not written; an
incomplete last line is ignored. Reading adds up what belongs together:

=============  =====================================================================================
`recording`    the version of this format; the first line
`program`      a process: its arguments and versions (`Program`)
`function`     a function, when it is first called (`RecordedFunction`)
`call`         a signature of a function, when it is first called (`RecordedCall`)
`tally`        how often a signature was called since the last tally, and how long it was compiled
=============  =====================================================================================
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import MISSING, astuple, dataclass, field, fields
from itertools import count
from pathlib import Path
from typing import Any

from aotbuild.errors import InvalidCallLog
from aotbuild.format.aval import Aval
from aotbuild.format.canonical import canonical_json, sha256_hex
from aotbuild.format.files import MOST_TEXT, open_regular
from aotbuild.format.tree import Tree
from aotbuild.record.checked import check_tree, checked, checked_text

VERSION = 1
# What all recordings begin with, of whichever version.
BEGINNING = b'{"kind":"recording",'
_JAX = ("jax", "jaxlib")
KEY_DIGITS = 16


@dataclass(frozen=True)
class Program:
    """A process that was watched.

    Attributes:
        key: What no other process has.
        argv: Its name alone, as `sys.argv` begins with it: arguments may be secrets.
        versions: The version of `python`, `jax`, `jaxlib` and `aotbuild`.
        platform: The platform of its calls, as `cpu`.
        started: When watching began, in UTC, as `2026-01-31T12:00:00Z`.
    """

    key: str
    argv: tuple[str, ...]
    versions: dict[str, str]
    platform: str
    started: str


@dataclass(frozen=True)
class RecordedFunction:
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
        distribution: The name of the distribution that installed it; empty if none did.
        version: The version of that distribution.
        digest: The SHA-256 of the file of its source; empty if unknown.
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
    distribution: str = ""
    version: str = ""
    digest: str = ""

    @property
    def key(self) -> str:
        """The identity of this function in a recording."""
        return _key(self.to_json())

    @property
    def is_operation(self) -> bool:
        """Whether jax itself has it: an operation that was called outside of any jit."""
        return self.call.partition(":")[0].partition(".")[0] in _JAX

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form; the inverse of `from_json`."""
        return _plain(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> RecordedFunction:
        """Read what `to_json` wrote."""
        names = ("positional", "keywords", "static", "donate")
        return checked(cls(**{**data, **{name: tuple(data.get(name, ())) for name in names}}))


@dataclass(frozen=True)
class RecordedArgument:
    """One argument of a call that is not static.

    Attributes:
        name: The name of its parameter.
        tree: The description of its tree, as `format.tree`; None if it has none.
        leaves: The avals of its leaves, in order.
        shardings: For each leaf its PartitionSpec as the manifest has it, and None for one that is
            on one device; empty if all are.
        like: `module:attr` of a global that has this tree with these avals; empty if none is known.
        problem: Why a manifest cannot say what it is; empty if one can.
    """

    name: str
    tree: Tree
    leaves: tuple[Aval, ...]
    shardings: tuple[Any, ...] = ()
    like: str = ""
    problem: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form; the inverse of `from_json`."""
        return {**_plain(self), "leaves": [str(aval) for aval in self.leaves]}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> RecordedArgument:
        """Read what `to_json` wrote."""
        leaves = tuple(map(Aval.parse, data["leaves"]))
        shardings = tuple(data.get("shardings", ()))
        if data["tree"] is not None:
            check_tree(data["tree"])
        return checked(cls(**{**data, "leaves": leaves, "shardings": shardings}))


@dataclass(frozen=True)
class RecordedCall:
    """A signature that a function was called with.

    Attributes:
        function: The key of the `RecordedFunction`.
        arguments: What was passed, in the order of the parameters, static ones left out.
        statics: (name, encoded value) of the static arguments, sorted by name; see `format.values`.
        config: Settings of jax that decide what is traced and are not at their defaults.
        env: Environment variables that decide what is traced, as far as they are set.
        mesh: The axes of the mesh of its arguments and their sizes; empty if it has none.
        explicit_axes: Those of them whose `AxisType` is Explicit.
        platform: Where it ran, as `cpu`; empty if unknown.
        devices: On how many devices it ran.
        problem: Why no manifest can have this signature; empty if one can.
    """

    function: str
    arguments: tuple[RecordedArgument, ...]
    statics: tuple[tuple[str, Any], ...] = ()
    config: dict[str, Any] = field(default_factory=dict)
    env: dict[str, str] = field(default_factory=dict)
    mesh: dict[str, int] = field(default_factory=dict)
    explicit_axes: tuple[str, ...] = ()
    platform: str = ""
    devices: int = 1
    problem: str = ""

    @property
    def key(self) -> str:
        """The identity of this signature in a recording."""
        return _key(self.to_json())

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form; the inverse of `from_json`."""
        arguments = [argument.to_json() for argument in self.arguments]
        return {**_plain(self), "arguments": arguments}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> RecordedCall:
        """Read what `to_json` wrote."""
        arguments = tuple(map(RecordedArgument.from_json, data["arguments"]))
        statics = tuple((name, value) for name, value in data.get("statics", ()))
        axes = tuple(data.get("explicit_axes", ()))
        found = {**data, "arguments": arguments, "statics": statics, "explicit_axes": axes}
        return checked(cls(**found))


@dataclass(frozen=True)
class Tally:
    """How often a signature was called, and how many seconds jax took to compile it.

    `compiled` is how often it was compiled, or read from jax's own cache.
    """

    calls: int = 0
    compiled: int = 0
    trace_seconds: float = 0.0
    lower_seconds: float = 0.0
    compile_seconds: float = 0.0

    @property
    def seconds(self) -> float:
        """All that a compiled executable saves."""
        return self.trace_seconds + self.lower_seconds + self.compile_seconds

    def __add__(self, other: Tally) -> Tally:
        return Tally(*map(sum, zip(astuple(self), astuple(other), strict=True)))


@dataclass(frozen=True)
class Recording:
    """What a file holds, added up. Functions and calls are in the order of their first call."""

    programs: dict[str, Program] = field(default_factory=dict)
    functions: dict[str, RecordedFunction] = field(default_factory=dict)
    calls: dict[str, RecordedCall] = field(default_factory=dict)
    tallies: dict[str, Tally] = field(default_factory=dict)

    def of(self, function: str) -> dict[str, RecordedCall]:
        """Return the calls of a function, given by its key."""
        return {key: call for key, call in self.calls.items() if call.function == function}

    def tally(self, calls: Iterable[str]) -> Tally:
        """Return the sum for some calls, given by their keys."""
        return sum((self.tallies.get(key, Tally()) for key in calls), Tally())


def read_recording(*paths: Path) -> Recording:
    """Return what files hold together; OSError, or InvalidCallLog for what is none."""
    found = Recording()
    for path in paths:
        for number, (kind, data) in enumerate(_lines(path), 1):
            try:
                _add(found, kind, data)
            except (LookupError, TypeError, ValueError, AttributeError, RecursionError) as err:
                reason = f"{kind}: {type(err).__name__}: {err}"
                raise InvalidCallLog(_place(path, number), reason) from err
    return found


def line_of(kind: str, data: dict[str, Any]) -> bytes:
    """Return a line of a recording, with its end."""
    return canonical_json({"kind": kind, **data}) + b"\n"


def first_line() -> bytes:
    """Return the line that a recording begins with."""
    return line_of("recording", {"version": VERSION})


def program_line(program: Program) -> bytes:
    """Return the line of a process."""
    return line_of("program", _plain(program))


def function_line(function: RecordedFunction) -> bytes:
    """Return the line of a function."""
    return line_of("function", {"function": function.to_json()})


def call_line(call: RecordedCall) -> bytes:
    """Return the line of a signature."""
    return line_of("call", {"call": call.to_json()})


def tally_line(call: str, tally: Tally) -> bytes:
    """Return the line that adds to the tally of a call, given by its key."""
    return line_of("tally", {"of": call, "tally": list(astuple(tally))})


def _lines(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    with open_regular(path) as file:
        for number in count(1):
            line = file.readline(MOST_TEXT + 1)
            if len(line) > MOST_TEXT:
                raise InvalidCallLog(_place(path, number), f"a line of over {MOST_TEXT:,} bytes")
            if not line.endswith(b"\n"):
                return  # a process was killed while it wrote
            try:
                data = json.loads(line)
                kind = data.pop("kind")
            except (ValueError, KeyError, AttributeError, TypeError, RecursionError) as err:
                raise InvalidCallLog(_place(path, number), repr(line[:60])) from err
            if number == 1 and (kind, data) != ("recording", {"version": VERSION}):
                raise InvalidCallLog(_place(path, number), repr(line[:60]))
            yield kind, data


def _place(path: Path, line: int) -> str:
    return f"{path}:{line}"


def _add(found: Recording, kind: str, data: dict[str, Any]) -> None:
    if kind == "program":
        program = checked(Program(**{**data, "argv": tuple(data["argv"])}))
        found.programs[program.key] = program
    elif kind == "function":
        function = RecordedFunction.from_json(data["function"])
        found.functions.setdefault(function.key, function)
    elif kind == "call":
        call = RecordedCall.from_json(data["call"])
        found.calls.setdefault(call.key, call)
    elif kind == "tally":
        tally = checked(Tally(*data["tally"]))
        of = checked_text(data["of"])
        found.tallies[of] = found.tallies.get(of, Tally()) + tally
    elif kind != "recording":
        msg = "an unknown kind of line"
        raise ValueError(msg)


def _key(data: dict[str, Any]) -> str:
    return sha256_hex(canonical_json(data))[:KEY_DIGITS]


def _plain(value: Any) -> dict[str, Any]:
    """Return the fields of a dataclass that are not at their defaults."""
    found = {}
    for each in fields(value):
        made = each.default if each.default_factory is MISSING else each.default_factory()
        if getattr(value, each.name) != made:
            found[each.name] = getattr(value, each.name)
    return found
