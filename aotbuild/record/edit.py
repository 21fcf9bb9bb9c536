"""Edit the text of a manifest: what is added stands in the style around it, all else stays.

Positions are those of PyYAML's nodes. The end of a node in block style is that of the last thing in
it, because PyYAML counts the comments after it in.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

import yaml

from aotbuild.record.yaml_text import entry_lines, flow, scalar

_LINE_END = re.compile(r"\r\n|[\n\r\x85\u2028\u2029]")
_LEAD = re.compile(r"([-?]) +\Z")
_SPACE = " \t\r\n"


class CannotEdit(Exception):
    """A place in the text cannot be changed without losing something; the message says what."""


class TextEditor:
    """Collects changes of a text that is one document of YAML, a map."""

    def __init__(self, text: str) -> None:
        self._text = text
        ends = _LINE_END.search(text)
        self._newline = ends.group() if ends and ends.group() == "\r\n" else "\n"
        self._changes: list[tuple[int, int, int, str]] = []
        self.root: Any = yaml.compose(text, Loader=yaml.SafeLoader)

    def result(self) -> str:
        """Return the text with all changes."""
        text = self._text
        for start, end, _, new in sorted(self._changes, reverse=True):
            text = text[:start] + new + text[end:]
        return text

    def value(self, node: Any, *steps: str | int) -> Any:
        """Return the node that keys and indices lead to; None if there is none."""
        for step in steps:
            if isinstance(node, yaml.MappingNode):
                pairs = (each for each in node.value if isinstance(each[0], yaml.ScalarNode))
                items = {key.value: value for key, value in pairs}
                node = items.get(str(step))
            elif isinstance(node, yaml.SequenceNode) and isinstance(step, int):
                node = node.value[step]
            else:
                return None
        return node

    def add_entry(self, node: Any, key: str, value: Any) -> None:
        """Add `key: value` at the end of a map."""
        if node.flow_style:
            self.add_flow(node, f"{flow(key)}: {flow(value)}")
        else:
            self.add_lines(node, [*entry_lines(key, value, self.column(node))])

    def add_lines(self, node: Any, lines: Sequence[str]) -> None:
        """Add lines at the end of a map or list in block style, after its last comment."""
        at = self._after_comments(self._line_end(self._end(node)), self.column(node))
        self._insert(at, "".join(f"{self._newline}{line}" for line in lines))

    def add_flow(self, node: Any, text: str) -> None:
        """Add an item at the end of a map or list in flow style."""
        if node.value:
            last = node.value[-1]
            self._insert(self._end(last[1] if isinstance(last, tuple) else last), f", {text}")
        else:
            self._insert(node.start_mark.index + 1, text)

    def add_values(self, node: Any, values: Iterable[Any]) -> None:
        """Add values to a list; one value alone becomes a list."""
        texts = [flow(value) for value in values]
        if not isinstance(node, yaml.SequenceNode):
            self.replace(node, f"[{', '.join([self._source(node), *texts])}]")
        elif node.flow_style:
            for text in texts:
                self.add_flow(node, text)
        else:
            self.add_lines(node, [f"{' ' * self.column(node)}- {text}" for text in texts])

    def replace(self, node: Any, text: str) -> None:
        """Write a node anew; CannotEdit if a comment would be lost."""
        old = self._source(node)
        if "#" in old and _LINE_END.search(old):
            msg = "there are comments inside"
            raise CannotEdit(msg)
        self._changes.append((node.start_mark.index, self._end(node), len(self._changes), text))

    def replace_aval(self, node: Any, text: str) -> None:
        """Write an aval anew, in the quotes that the old one has."""
        style = getattr(node, "style", None)
        is_plain = isinstance(node, yaml.ScalarNode) and style is None
        quote = style or '"'
        self.replace(node, scalar(text) if is_plain else f"{quote}{text}{quote}")

    def fill(self, node: Any, lines: Sequence[str]) -> None:
        """Write lines in the place of an empty value: nothing, `null` or `{}`."""
        self.replace(node, "".join(f"{self._newline}{line}" for line in lines))

    def write_entry(self, key: Any, value: Any, lines: Sequence[str]) -> None:
        """Write an entry of a map in block style anew: its key, too."""
        text = self._newline.join(lines)
        self._changes.append((self._line_start(key), self._end(value), len(self._changes), text))

    def remove_lines(self, key: Any, value: Any) -> None:
        """Remove an entry of a map in block style, with the rest of its last line."""
        end = self._line_end(self._end(value))
        self._changes.append((self._line_start(key), end, len(self._changes), ""))

    def column(self, node: Any) -> int:
        """Return how far the entries of a map or list in block style are indented."""
        if not node.value:
            return int(node.start_mark.column)
        first = node.value[0][0] if isinstance(node, yaml.MappingNode) else node.value[0]
        # `- ` of an item or `? ` of a key; where the node has an anchor, it begins there.
        at = int(first.start_mark.index)
        found = _LEAD.search(self._text, 0, at)
        is_list = isinstance(node, yaml.SequenceNode)
        lead = found.group() if found and (found[1] == "-") == is_list else ""
        return int(first.start_mark.column) - len(lead)

    def _insert(self, at: int, text: str) -> None:
        # Insertions at one place stay in order: they are applied from the last one on.
        self._changes.append((at, at, len(self._changes), text))

    def _source(self, node: Any) -> str:
        return self._text[node.start_mark.index : self._end(node)]

    def _end(self, node: Any) -> int:
        children = _children(node)
        if children and not node.flow_style and _begins_after(children[-1], node):
            return self._end(children[-1])
        end: int = node.end_mark.index
        while end > node.start_mark.index and self._text[end - 1] in _SPACE:
            end -= 1
        return end

    def _line_start(self, node: Any) -> int:
        return int(node.start_mark.index) - int(node.start_mark.column)

    def _line_end(self, index: int) -> int:
        found = _LINE_END.search(self._text, index)
        return found.start() if found else len(self._text)

    def _after_comments(self, at: int, column: int) -> int:
        """Return the end of the comments that follow and are indented as the entries are."""
        end = at
        while found := _LINE_END.match(self._text, at):
            at = self._line_end(found.end())
            line = self._text[found.end() : at]
            comment = line.lstrip(" ")
            if comment.startswith("#") and len(line) - len(comment) >= max(column, 1):
                end = at
            elif comment.strip(" \t"):
                break
        return end


def _begins_after(child: Any, node: Any) -> bool:
    """Return whether a child is written where it is; an alias, even of the node, is not."""
    return bool(child.start_mark.index > node.start_mark.index)


def _children(node: Any) -> list[Any]:
    """Return the nodes inside a map or list, in the order of the text."""
    if isinstance(node, yaml.MappingNode):
        return [each for pair in node.value for each in pair]
    return [*node.value] if isinstance(node, yaml.SequenceNode) else []
