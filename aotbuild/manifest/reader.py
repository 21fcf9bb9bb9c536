"""Read YAML text into positioned nodes; refuse what has no one meaning.

The tree is built from PyYAML's events on a stack of our own: nothing recurses, nothing is
constructed, and neither an alias nor a tag ever acts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import yaml

from aotbuild.manifest.nodes import START, ListNode, MapNode, Mark, Node, ScalarNode
from aotbuild.manifest.problems import Problems, describe, dotted
from aotbuild.manifest.scalars import SurpriseError, read_plain
from aotbuild.spec.words import quote

MAX_BYTES = 1 << 20
MAX_DEPTH = 64
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


@dataclass
class _Open:
    """A list or map whose end has not been met yet."""

    mark: Mark
    is_map: bool
    items: list[Node] = field(default_factory=list)
    entries: dict[tuple[type, object], tuple[ScalarNode, Node]] = field(default_factory=dict)
    key: Node | None = None

    def step(self) -> object:
        """Return the key or index that is being read."""
        if self.is_map:
            return self.key.value if isinstance(self.key, ScalarNode) else "?"
        return len(self.items)

    def close(self) -> Node:
        """Return the finished node."""
        if self.is_map:
            return MapNode(self.mark, tuple(self.entries.values()))
        return ListNode(self.mark, tuple(self.items))


def read_yaml(text: str, problems: Problems) -> Node | None:
    """Return the one document in the text; None where there is none to go on with."""
    if len(text.encode("utf-8", "surrogatepass")) > MAX_BYTES:
        problems.add(START, "", TOO_LARGE)
        return None
    reader = _Reader(problems)
    try:
        for event in _events(text, problems):
            reader.feed(event)
    except _StopError:
        return None
    if reader.root is None or (isinstance(reader.root, ScalarNode) and reader.root.text == ""):
        problems.add(START, "", "the file is empty; expected a map that begins with version: 1")
        return None
    return reader.root


def _events(text: str, problems: Problems) -> Iterator[yaml.Event]:
    """Yield the events; a syntax error becomes a problem, then stops."""
    loader: yaml.SafeLoader | None = None
    try:
        loader = yaml.SafeLoader(text.removeprefix("\ufeff"))
        while loader.check_event():
            yield loader.get_event()  # type: ignore[no-untyped-call]
    except yaml.reader.ReaderError as err:
        message = f"the character U+{err.character:04X} is not allowed in YAML"
        problems.add(_mark_of(text, err.position), "", message)
        raise _StopError from err
    except yaml.MarkedYAMLError as err:
        at = err.problem_mark or err.context_mark
        problems.add(_mark(at), "", _reworded(err))
        raise _StopError from err
    except (ValueError, OverflowError, IndexError) as err:  # in escapes such as "\UFFFFFFFF"
        at = loader.get_mark() if loader else None
        problems.add(_mark(at), "", "not valid YAML: a malformed number or escape")
        raise _StopError from err
    finally:
        if loader is not None:
            loader.dispose()


class _Reader:
    """Turns events into nodes."""

    def __init__(self, problems: Problems) -> None:
        self.problems = problems
        self.root: Node | None = None
        self._stack: list[_Open] = []
        self._documents = 0

    def feed(self, event: yaml.Event) -> None:
        """Take the next event."""
        mark = _mark(event.start_mark)
        if isinstance(event, yaml.DocumentStartEvent):
            self._document(mark)
        elif isinstance(event, yaml.AliasEvent):
            self._alias(mark, str(event.anchor))
        elif isinstance(event, yaml.ScalarEvent):
            self._tag(mark, event.tag)
            self._add(self._scalar(mark, event))
        elif isinstance(event, yaml.CollectionStartEvent):
            self._open(mark, event)
        elif isinstance(event, yaml.CollectionEndEvent):
            self._add(self._stack.pop().close())

    def _path(self) -> str:
        return dotted(frame.step() for frame in self._stack if frame.key or not frame.is_map)

    def _document(self, mark: Mark) -> None:
        self._documents += 1
        if self._documents > 1:
            self.problems.add(mark, "", "a second document begins; a manifest is one document")
            raise _StopError

    def _alias(self, mark: Mark, name: str) -> None:
        message = f"aliases are refused, found *{name[:40]}; write it out, or use defaults:"
        self.problems.unreadable(mark, self._path(), message)
        self._add(ScalarNode(mark, None, f"*{name}"))

    def _tag(self, mark: Mark, tag: str | None) -> None:
        if tag is not None:
            message = f"tags are refused, found {quote(tag)}; write the plain value"
            self.problems.unreadable(mark, self._path(), message)

    def _scalar(self, mark: Mark, event: yaml.ScalarEvent) -> ScalarNode:
        text = event.value
        if any("\ud800" <= char <= "\udfff" for char in text):
            message = "an escape stands for half a character (a lone surrogate)"
            self.problems.unreadable(mark, self._path(), message)
            return ScalarNode(mark, "?", "?")
        if event.style or event.tag is not None:
            return ScalarNode(mark, text, text)
        try:
            return ScalarNode(mark, read_plain(text), text)
        except SurpriseError as err:
            self.problems.unreadable(mark, self._path(), str(err))
            return ScalarNode(mark, text, text)

    def _open(self, mark: Mark, event: yaml.CollectionStartEvent) -> None:
        self._tag(mark, event.tag)
        if len(self._stack) >= MAX_DEPTH:
            self.problems.add(mark, "", f"nested deeper than {MAX_DEPTH} levels")
            raise _StopError
        self._stack.append(_Open(mark, isinstance(event, yaml.MappingStartEvent)))

    def _add(self, node: Node) -> None:
        if not self._stack:
            self.root = node
            return
        top = self._stack[-1]
        if not top.is_map:
            top.items.append(node)
        elif top.key is None:
            top.key = node
            self._check_key(node)
        else:
            self._entry(top, top.key, node)
            top.key = None

    def _check_key(self, key: Node) -> None:
        if isinstance(key, ScalarNode) and type(key.value) in (str, int):
            return
        message = f"a key must be text or a whole number, found {describe(key)}; quote it"
        self.problems.unreadable(key.mark, self._path(), message)

    def _entry(self, top: _Open, key: Node, value: Node) -> None:
        if not isinstance(key, ScalarNode) or type(key.value) not in (str, int):
            return
        name = (type(key.value), key.value)
        if name not in top.entries:
            top.entries[name] = (key, value)
            return
        first = top.entries[name][0].mark.line
        path = dotted(frame.step() for frame in self._stack[:-1])
        message = f"the key {quote(key.value)} is already on line {first}; remove one of the two"
        self.problems.unreadable(key.mark, path, message)


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
    return _WORDS.get(problem, f"not valid YAML: {problem}")
