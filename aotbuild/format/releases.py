"""Numbers of releases between two others, as a version specifier has to exclude them."""

from __future__ import annotations

from collections.abc import Iterator

Release = tuple[int, ...]
# The most numbers in a release: jaxlib 0.12.0.1 has four.
_NUMBERS = 4


def prefixes_between(low: Release, high: Release, later: int) -> Iterator[Release]:
    """Yield the prefixes of all releases between two that can be foreseen.

    These are all numbers in the first place that differs, and in the places below so many later
    ones. Nothing is between pre-releases of one release.
    """
    length = max(len(low), len(high))
    first, last = _padded(low, length), _padded(high, length)
    if first == last:
        return
    fork = next(i for i, (a, b) in enumerate(zip(first, last, strict=True)) if a != b)
    # After the lower one: releases with more numbers, then its patches, and so on upwards.
    longest = max(length, _NUMBERS)
    lower = _padded(first, longest)
    for place in range(longest - 1, fork, -1):
        yield from _numbered(lower[:place], lower[place] + 1, lower[place] + 1 + later)
    yield from _numbered(first[:fork], first[fork] + 1, last[fork])
    # Before the higher one.
    for place in range(fork + 1, len(last)):
        yield from _numbered(last[:place], 0, last[place])


def dotted(release: Release) -> str:
    """Return a release as text: `1.2`."""
    return ".".join(map(str, release))


def _numbered(stem: Release, start: int, end: int) -> Iterator[Release]:
    yield from ((*stem, number) for number in range(start, end))


def _padded(release: Release, length: int) -> Release:
    return release + (0,) * (length - len(release))
