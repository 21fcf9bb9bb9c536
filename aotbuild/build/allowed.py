"""Version specifiers that allow exactly a few versions. PEP 440 has no "or"."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise

from packaging.version import Version

# Releases that may come after the highest number that is known in a place: an upper bound has to be
# guessed, and what slips through is refused when it is loaded.
_LATER = 12
_POSTS = 5
# Numbers in a release: jaxlib 0.12.0.1 has four.
_NUMBERS = 4

_Release = tuple[int, ...]


def exactly(versions: Iterable[str]) -> str:
    """Return the specifier of exactly these versions: `==1.2`, or a range and what it leaves out.

    Of all that lies between two of them it leaves out the releases that can be foreseen: any number
    of the places in common, and up to twelve later ones below. Pre-releases of the highest version
    are left to pip, which takes none unless it is told to.
    """
    ordered = sorted(set(map(Version, versions)))
    if len(ordered) == 1:
        return f"=={ordered[0]}"
    between = [text for pair in pairwise(ordered) for text in _between(*pair)]
    return ",".join([f">={ordered[0]}", f"<={ordered[-1]}", *(f"!={text}" for text in between)])


def _between(low: Version, high: Version) -> Iterator[str]:
    """Yield what lies between two versions, as versions or as prefixes that end in `.*`."""
    first, last = _padded(low.release, high.release)
    if first == last:  # two of one release, such as pre-releases: their loader tells them apart
        return
    for number in range(_POSTS):
        if low < (post := Version(f"{_dotted(low.release)}.post{number}")) < high:
            yield str(post)
    fork = next(i for i, (a, b) in enumerate(zip(first, last, strict=True)) if a != b)
    # After the lower version: what has more numbers, then its patches, and so on upwards.
    longest = max(len(first), _NUMBERS)
    lower = first + (0,) * (longest - len(first))
    for place in range(longest - 1, fork, -1):
        yield from _prefixes(lower[:place], lower[place] + 1, lower[place] + 1 + _LATER)
    yield from _prefixes(first[:fork], first[fork] + 1, last[fork])
    # Before the higher one.
    for place in range(fork + 1, len(last)):
        yield from _prefixes(last[:place], 0, last[place])


def _prefixes(stem: _Release, start: int, end: int) -> Iterator[str]:
    yield from (f"{_dotted((*stem, number))}.*" for number in range(start, end))


def _padded(first: _Release, second: _Release) -> tuple[_Release, _Release]:
    """Return two releases with zeros at the end, so that they are of one length."""
    length = max(len(first), len(second))
    return (
        first + (0,) * (length - len(first)),
        second + (0,) * (length - len(second)),
    )


def _dotted(release: _Release) -> str:
    return ".".join(map(str, release))
