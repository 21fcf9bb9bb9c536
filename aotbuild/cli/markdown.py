"""What a command printed, as Markdown: for the summary of a CI job, or a comment."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

# GitHub refuses comments of more than 65,536 characters; GitLab allows 1,000,000.
MOST_CHARACTERS = 60_000
_PLAIN = re.compile(r"[\w .,:%+/×→()=-]*")


@dataclass
class Markdown:
    """Lines and tables in the order they were printed."""

    blocks: list[list[str] | tuple[tuple[str, ...], ...]] = field(default_factory=list)

    def line(self, text: str) -> None:
        """Add a line; those that follow each other become one block of code."""
        if not self.blocks or not isinstance(self.blocks[-1], list):
            self.blocks.append([])
        lines = self.blocks[-1]
        assert isinstance(lines, list)
        lines += text.split("\n")

    def table(self, headers: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        """Add a table."""
        self.blocks.append((tuple(headers), *map(tuple, rows)))

    def render(self, title: str, most: int = MOST_CHARACTERS) -> str:
        """Return it all below a title, cut so that it has at most so many characters."""
        lines: list[str] = [f"### {_cell(title)}"]
        used = len(lines[0]) + 1 + len(_CUT) + 2
        for block in self.blocks:
            head, body, tail = _parts(block)
            fixed = sum(len(line) + 1 for line in (*head, *tail))
            kept = list(_fitting(body, most - used - fixed))
            if body:
                lines += [*head, *kept, *tail]
                used += fixed + sum(len(line) + 1 for line in kept)
            if len(kept) < len(body):
                lines += ["", _CUT]
                break
        return "\n".join(lines) + "\n"


_CUT = "The rest is too long for this place; the log has all of it."


def _fitting(lines: Sequence[str], room: int) -> Iterator[str]:
    for line in lines:
        room -= len(line) + 1
        if room < 0:
            return
        yield line


def _parts(
    block: list[str] | tuple[tuple[str, ...], ...],
) -> tuple[list[str], list[str], list[str]]:
    """Return the lines before the contents of a block, its contents, and the lines after them."""
    if isinstance(block, tuple):
        headers, *rows = block
        head = ["", _row(headers), _row(["---"] * len(headers))]
        return head, [_row(map(_cell, row)) for row in rows], []
    while block and not block[-1]:
        block = block[:-1]
    while block and not block[0]:
        block = block[1:]
    # Longer than any fence inside.
    longest = max((len(run) for line in block for run in re.findall("`+", line)), default=0)
    fence = "`" * max(3, longest + 1)
    return ["", f"{fence}text"], block, [fence]


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(text: str) -> str:
    """Return text that Markdown and HTML show as it is, and that mentions nobody."""
    if _PLAIN.fullmatch(text) and "__" not in text:
        return text
    quoted = text.replace("`", "'").replace("|", "\\|").replace("\n", " ")
    return f"`{quoted}`"
