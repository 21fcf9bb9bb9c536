"""Read YAML text into data with positions, and refuse what is ambiguous.

Data is made from PyYAML's events and not by its constructors, so aliases and tags have no effect,
and depth is limited. A plain (unquoted) scalar is read by the core schema of YAML 1.2 (section
10.3.2). It is refused where YAML 1.1, by PyYAML's resolver, reads something else.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn, TypeAlias

import yaml

from aotbuild.errors import ManifestError, Problem
from aotbuild.format.files import open_regular
from aotbuild.format.words import quote
from aotbuild.manifest.problems import START, Document, Mark, Place, Problems, Steps, describe

MAX_BYTES = 1 << 20
MAX_DEPTH = 64
TODO = "TODO"  # what `aotbuild init` and `record` leave where nobody knows the value
_LEFT = 'TODO is left here; write the value, or "TODO" in quotes for the text'
TOO_LARGE = f"larger than {MAX_BYTES} bytes; split the manifest"

_WORDS = {
    "mapping values are not allowed here": (
        "a ':' is not expected here; check the indentation, or put the text in quotes"
    ),
    "could not find expected ':'": "a ':' is missing after the key, or the indentation is off",
    "found unexpected end of stream": "the text ends within quotes, brackets or braces",
}


class _StopError(Exception):
    """Nothing after this place can be read."""


def read_text(file: str) -> str:
    """Return the text of a file, at most that of the largest manifest.

    Raises:
        ManifestError: that says why it cannot be read.
    """
    try:
        with open_regular(file) as stream:
            data = stream.read(MAX_BYTES + 1)
    except (OSError, ValueError) as err:
        raise refusal(file, _unreadable(file, err)) from err
    if len(data) > MAX_BYTES:
        raise refusal(file, TOO_LARGE)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as err:
        start = err.start
    line_start = data.rfind(b"\n", 0, start) + 1
    mark = Mark(data.count(b"\n", 0, start) + 1, start - line_start + 1)
    raise refusal(file, f"not UTF-8 (byte 0x{data[start]:02x}); save the file as UTF-8", mark)


def _unreadable(file: str, err: OSError | ValueError) -> str:
    if isinstance(err, IsADirectoryError):
        return "a directory; expected a YAML file"
    if isinstance(err, FileNotFoundError):
        if Path(file).with_name("PKG-INFO").is_file():
            table = "[tool.hatch.build.targets.sdist]"
            return f"no such file in this source distribution; select it under {table}"
        return "no such file; expected a YAML manifest: write it, or give the path of another"
    return f"cannot be read: {getattr(err, 'strerror', None) or err}"


def refusal(file: str, message: str, mark: Mark = START) -> ManifestError:
    """Return the error with one problem, by default of a whole file."""
    return ManifestError([Problem(file, mark.line, mark.column, "", message)])


def read_yaml(text: str, problems: Problems) -> Document | None:
    """Return the one document in the text; None where nothing can be read."""
    if len(text.encode("utf-8", "surrogatepass")) > MAX_BYTES:
        problems.add(START, (), TOO_LARGE)
        return None
    try:
        found = _Reader(_events(text, problems), problems).document()
    except _StopError:
        return None
    if found.places[()].text == "" and found.data is None:
        problems.add(START, (), "the file is empty; expected a map that begins with version: 1")
        return None
    return found


def _events(text: str, problems: Problems) -> Iterator[yaml.Event]:
    """Yield the events; a syntax error becomes a problem, then stops."""
    loader: yaml.SafeLoader | None = None
    try:
        loader = yaml.SafeLoader(text.removeprefix("\ufeff"))
        while loader.check_event():
            yield loader.get_event()  # type: ignore[no-untyped-call]
    except yaml.reader.ReaderError as err:
        message = f"the character U+{err.character:04X} is not allowed in YAML"
        problems.add(_mark_of(text, err.position), (), message)
        raise _StopError from err
    except yaml.MarkedYAMLError as err:
        at = err.problem_mark or err.context_mark
        problems.add(_mark(at), (), _reworded(err))
        raise _StopError from err
    except (ValueError, OverflowError, IndexError) as err:  # in escapes such as "\UFFFFFFFF"
        at = loader.get_mark() if loader else None
        problems.add(_mark(at), (), "not valid YAML: a malformed number or escape")
        raise _StopError from err
    finally:
        if loader is not None:
            loader.dispose()


class _Reader:
    """Makes data of events; `steps` are the keys and indices that lead to a value."""

    def __init__(self, events: Iterator[yaml.Event], problems: Problems) -> None:
        self._events, self._problems = events, problems
        self._places: dict[Steps, Place] = {}

    def document(self) -> Document:
        """Return the one document; that of an empty text has the value null."""
        data = None
        for event in self._events:
            if isinstance(event, yaml.DocumentStartEvent):
                if self._places:
                    message = "a second document begins; a manifest is one document"
                    self._stop(_mark(event.start_mark), message)
                data = self._value(next(self._events), (), 0)
        return Document(data, self._places or {(): Place()})

    def _value(self, event: yaml.Event, steps: Steps, depth: int, key: Mark | None = None) -> Any:
        mark = _mark(event.start_mark)
        text = event.value if isinstance(event, yaml.ScalarEvent) else ""
        self._places.setdefault(steps, Place(mark, key, text))
        if isinstance(event, yaml.AliasEvent):
            name = str(event.anchor)
            message = f"aliases are refused, found *{name[:40]}; write it out"
            self._problems.unreadable(mark, steps, message)
            return None
        assert isinstance(event, yaml.ScalarEvent | yaml.CollectionStartEvent)
        if event.tag is not None:
            message = f"tags are refused, found {quote(event.tag)}; write the plain value"
            self._problems.unreadable(mark, steps, message)
        if isinstance(event, yaml.ScalarEvent):
            return self._scalar(mark, event, steps)
        if depth >= MAX_DEPTH:
            self._stop(mark, f"nested deeper than {MAX_DEPTH} levels")
        if isinstance(event, yaml.MappingStartEvent):
            return self._map(steps, depth + 1)
        items: list[Any] = []
        while not isinstance(item := next(self._events), yaml.SequenceEndEvent):
            items.append(self._value(item, (*steps, len(items)), depth + 1))
        return items

    def _map(self, steps: Steps, depth: int) -> dict[int | str, Any]:
        found: dict[int | str, Any] = {}
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            mark = _mark(event.start_mark)
            key = self._value(event, steps, depth)
            inner = (*steps, key if isinstance(key, int | str) else "?")
            kept = self._places
            if type(key) not in (str, int):
                message = f"a key must be text or a whole number, found {describe(key)}; quote it"
                self._problems.unreadable(mark, inner, message)
                self._places = {}
            elif key in found:
                first = kept[inner].key or mark
                where = f"is already on line {first.line}; remove one of the two"
                self._problems.unreadable(mark, steps, f"the key {quote(key)} {where}")
                self._places = {}
            value = self._value(next(self._events), inner, depth, mark)
            if self._places is kept:
                found[key] = value
            self._places = kept
        return found

    def _scalar(self, mark: Mark, event: yaml.ScalarEvent, steps: Steps) -> Value:
        text: str = event.value
        if any("\ud800" <= char <= "\udfff" for char in text):
            message = "an escape stands for half a character (a lone surrogate)"
            self._problems.unreadable(mark, steps, message)
            return "?"
        if event.style or event.tag is not None:
            return text
        if text == TODO:
            self._problems.unreadable(mark, steps, _LEFT)
            return text
        try:
            return _read_plain(text)
        except _AmbiguousError as err:
            self._problems.unreadable(mark, steps, str(err))
            return text

    def _stop(self, mark: Mark, message: str) -> NoReturn:
        self._problems.add(mark, (), message)
        raise _StopError


def _mark(mark: Any) -> Mark:
    return START if mark is None else Mark(mark.line + 1, mark.column + 1)


def _mark_of(text: str, position: int) -> Mark:
    before = text[:position].splitlines(keepends=True) or [""]
    ended = before[-1].endswith(("\n", "\r"))
    return Mark(len(before) + ended, 1 if ended else len(before[-1]) + 1)


def _reworded(err: yaml.MarkedYAMLError) -> str:
    problem = str(err.problem or err.context or "unreadable")
    if "'\\t'" in problem:
        return "a tab cannot indent or separate in YAML; use spaces"
    if problem.startswith("expected <block end>"):
        return "this line fits none above it; check the indentation"
    if problem in ("expected ',' or ']', but got '['", "expected ',' or '}', but got '['"):
        return 'between brackets or braces, quote specs such as "f32[8]"'
    return _WORDS.get(problem, f"not valid YAML: {problem}")


# --- plain scalars -------------------------------------------------------------------------------

Value: TypeAlias = bool | int | float | str | None

_NULL = frozenset({"", "~", "null", "Null", "NULL"})
_BOOLEANS = {
    spelling: value
    for word, value in (("true", True), ("false", False))
    for spelling in (word, word.capitalize(), word.upper())
}
_INT = re.compile(r"[-+]?[0-9]+\Z")
_BASED = re.compile(r"0(?:o[0-7]+|x[0-9a-fA-F]+)\Z")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?\Z")
_INFINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)\Z")
_NAN = frozenset({".nan", ".NaN", ".NAN"})
_OCTAL_11 = re.compile(r"[-+]?0[0-9]*[1-9][0-9]*\Z")
_MOST_DIGITS = 300  # Python itself refuses to read above 4300

_KINDS = {type(None): "null", bool: "bool", int: "int", float: "float", str: "str"}
_RESOLVER = yaml.resolver.Resolver()


class _AmbiguousError(ValueError):
    """YAML 1.1 and YAML 1.2 read a plain scalar differently; the text says what to write."""


def _read_plain(text: str) -> Value:
    """Return the value of a plain scalar, the same in YAML 1.1 and 1.2.

    Raises:
        _AmbiguousError: if the two differ, or a number is too long.
    """
    if len(text) > _MOST_DIGITS and (_FLOAT.match(text) or _BASED.match(text)):
        msg = f"a number of {len(text)} characters; at most {_MOST_DIGITS} are read"
        raise _AmbiguousError(msg)
    value = _core_schema(text)
    # YAML 1.1 also lists y and n, but no parser in use reads them as booleans, and dims have such
    # names; PyYAML and YAML 1.2 agree on text.
    tag: str = _RESOLVER.resolve(yaml.ScalarNode, text, (True, False))  # type: ignore[no-untyped-call]
    is_octal = isinstance(value, int) and _OCTAL_11.match(text)
    if tag.rpartition(":")[2] == _KINDS[type(value)] and not is_octal:
        return value
    readings = f'write "{text}" in quotes for the text'
    if text in ("<<", "="):
        readings = "write the keys out"
    elif isinstance(value, int | float):
        readings += f", or {yaml.safe_dump(value).split()[0]} for the number"
    elif text.lower() in yaml.SafeLoader.bool_values:
        boolean = yaml.SafeLoader.bool_values[text.lower()]
        readings += f", or {str(boolean).lower()} for the boolean"
    msg = f"YAML 1.1 and YAML 1.2 read {text!r} differently; {readings}"
    raise _AmbiguousError(msg)


def _core_schema(text: str) -> Value:
    if text in _NULL:
        return None
    if text in _BOOLEANS:
        return _BOOLEANS[text]
    if _INT.match(text):
        return int(text)
    if _BASED.match(text):
        return int(text, 0)
    if text in _NAN or _INFINITE.match(text):
        return float(text.replace(".", ""))
    return float(text) if _FLOAT.match(text) else text
