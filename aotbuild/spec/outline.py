"""Outlines: the signatures of a function as their records write them, without reading a record.

To compare a call with 10,000 signatures, reading the records would take a second. An outline takes
some microseconds. It is not checked: it chooses what is read, and says nothing by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

# (key of the signature, the texts of its avals, its statics and tree as JSON)
Outline = tuple[str, list[str], bytes]

# A record's object is canonical: its keys are in order, and quotes inside a text are escaped.
_BEGIN, _MIDDLE, _END = b'"signature":{"leaves":[', b'],"statics":', b'},"stages":{'
# Bytes that are read at once: the objects of a function lie side by side.
_BLOCK = 1 << 18


def outlines(
    objects: Iterable[tuple[str, int, int]], read: Callable[[int, int], bytes]
) -> Iterator[Outline]:
    """Yield the outline in each object, given by its key, start and end; leave out what has none.

    `read(start, end)` returns bytes.
    """
    block, at = b"", 0
    for key, start, end in objects:
        if not at <= start <= end <= at + len(block):
            at, block = start, read(start, max(end, start + _BLOCK))
        found = outline(block[start - at : end - at])
        if found is not None:
            yield key, *found


def outline(line: bytes) -> tuple[list[str], bytes] | None:
    """Return the avals and the rest of the signature in an object, or None if there is none."""
    begin, end = line.rfind(_BEGIN), line.rfind(_END)
    if begin < 0:
        return None
    leaves, _, rest = line[begin + len(_BEGIN) : end].partition(_MIDDLE)
    texts = leaves[1:-1].decode("utf-8", "replace").split('","') if leaves else []
    return texts, rest
