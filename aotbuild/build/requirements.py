"""What a build needs and what its wheel needs, as requirements and tags that pip understands."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib import metadata
from itertools import pairwise

from packaging.version import Version

from aotbuild.build.plan import Plan
from aotbuild.manifest import Manifest
from aotbuild.spec.record import Record
from aotbuild.toolchains.environments import may_be_running
from aotbuild.toolchains.wanted import plugin_needs, wanted_toolchains

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


_LOWEST = "0.10.2"  # the oldest jax that this version was tried with


def build_requirements(manifest: Manifest, project: Iterable[str]) -> list[str]:
    """Return what the build environment must have: jax as the manifest pins it, and the project's.

    The project's own dependencies are there because its functions are imported and traced. Where uv
    makes the environments that do it, the build itself needs neither.
    """
    if not manifest.toolchains:
        # The running jax says which version it is, also where uv makes its environment.
        return [_jax(manifest), *([] if plugin_needs(manifest) else project)]
    (first, *others) = wanted_toolchains(manifest, project, None)
    return [] if others or not may_be_running(first, manifest) else [_jax(manifest), *project]


def deferred_requirements(manifest: Manifest) -> list[str]:
    """Return the Requires-Dist of an editable install that compiles later, where it is."""
    return [f"aotbuild{_compatible(metadata.version('aotbuild'))}", _jax(manifest)]


def wheel_requirements(plan: Plan, records: Iterable[Record]) -> list[str]:
    """Return the Requires-Dist of a wheel: the exact jaxlib (and jax), a compatible aotbuild.

    With several toolchains it is exactly their versions. Portable artifacts alone are compiled
    where they run, by the jaxlib that made them or a later one.
    """
    needed = [f"aotbuild{_compatible(plan.environment.aotbuild)}"]
    toolchains = list(dict.fromkeys(unit.toolchain for unit in plan.units))
    allowed = exactly if plan.native else _at_least
    needed.append(f"jaxlib{allowed([toolchain.jaxlib for toolchain in toolchains])}")
    if plan.manifest.runtime == "jax":
        needed.append(f"jax{allowed([toolchain.jax for toolchain in toolchains])}")
    if any(record.target.is_portable for record in records):
        needed.append("flatbuffers>=24.3")
    return needed


def wheel_tag(plan: Plan) -> str:
    """Return the wheel's tag: any Python 3, no ABI, and jaxlib's own platform for native code."""
    return f"py3-none-{plan.environment.wheel_platform if plan.native else 'any'}"


def _jax(manifest: Manifest) -> str:
    pins = [request.jax for request in manifest.toolchains]
    return f"jax{exactly(pins) if pins else f'>={_LOWEST}'}"


def _at_least(versions: Iterable[str]) -> str:
    return f">={min(versions, key=Version)}"


def _compatible(version: str) -> str:
    """Return the range of versions that read what this one wrote (see docs/reference/format.md)."""
    release = Version(version).release
    major, minor = release[0], release[1] if len(release) > 1 else 0
    upper = f"{major}.{minor + 1}" if major == 0 else str(major + 1)
    return f">={major}.{minor},<{upper}"
