"""What a wheel states of itself: Requires-Dist, and its tag. Also what its build requires."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import pairwise, product
from typing import Any

from packaging.version import Version

from aotbuild.build.plan import Plan
from aotbuild.errors import PlanError
from aotbuild.format.target import ON_LINUX
from aotbuild.manifest import Manifest
from aotbuild.toolchains.environments import may_be_running
from aotbuild.toolchains.wanted import pinned_jax, plugin_needs, wanted_toolchains

Release = tuple[int, ...]
# The oldest jax that this version was tried with.
_LOWEST = "0.10.2"
# How many later releases a specifier foresees in each place of a version: an upper bound has to be
# guessed, and what it misses is refused when it is loaded.
_LATER = 12
_POSTS = 5
# The most numbers in a release: jaxlib 0.12.0.1 has four.
_NUMBERS = 4
# Where only a portable wheel can be installed.
ELSEWHERE = 'sys_platform != "linux"'


def build_requirements(manifest: Manifest, project: Iterable[str]) -> list[str]:
    """Return what the build environment must have: the manifest's jax, and the project's needs.

    The project's functions are imported and traced, so its dependencies are needed too. Where uv
    makes the environments that trace, the build itself needs neither.
    """
    if not manifest.toolchains:
        pin = pinned_jax(project)
        if plugin_needs(manifest):
            return [] if pin else [_jax(manifest)]
        # Of a pinned jaxlib that is the jax of the same version.
        return [f"jax=={pin.version}" if pin else _jax(manifest), *project]
    (first, *others) = wanted_toolchains(manifest, project, None)
    return [] if others or not may_be_running(first, manifest) else [_jax(manifest), *project]


def wheel_requirements(plan: Plan) -> list[str]:
    """Return the Requires-Dist of a wheel: the exact jaxlib (and jax), a compatible aotbuild.

    The plan alone decides, so that they are known before anything is compiled, and so that all
    wheels that are made of it state the same: an installer may take the metadata of one wheel for
    those of all. See `pins` for the versions.
    """
    needed = [f"aotbuild{_compatible(plan.environment.aotbuild)}"]
    toolchains = list(dict.fromkeys(unit.toolchain for unit in plan.units))
    portable = any(unit.target.is_portable for unit in plan.units)
    kinds = {"native": plan.native, "portable": portable}
    needed += pins("jaxlib", [toolchain.jaxlib for toolchain in toolchains], **kinds)
    if plan.manifest.runtime == "jax":
        needed += pins("jax", [toolchain.jax for toolchain in toolchains], **kinds)
    return [*needed, *(["flatbuffers>=24.3"] if portable else [])]


def pins(name: str, versions: Iterable[str], *, native: bool, portable: bool) -> list[str]:
    """Return the requirements of jax or jaxlib, for the versions of all toolchains.

    Executables need exactly these. Portable forms allow the version that made them and all later
    ones, which compile them where they run. With both, the first is for Linux, where installers
    take the wheel with the executables, and the second for where they take a portable one.
    """
    versions = list(versions)
    exact, least = f"{name}{exactly(versions)}", f"{name}>={min(versions, key=Version)}"
    if native and portable:
        return [f"{exact}; {ON_LINUX}", f"{least}; {ELSEWHERE}"]
    return [exact if native else least]


def _jax(manifest: Manifest) -> str:
    pins = [request.jax for request in manifest.toolchains]
    return f"jax{exactly(pins) if pins else f'>={_LOWEST}'}"


def _compatible(version: str) -> str:
    """Return the range of versions that read what this one wrote (see docs/reference/format.md)."""
    release = Version(version).release
    major, minor = release[0], release[1] if len(release) > 1 else 0
    upper = f"{major}.{minor + 1}" if major == 0 else str(major + 1)
    return f">={major}.{minor},<{upper}"


def exactly(versions: Iterable[str]) -> str:
    """Return the specifier of exactly these versions: `==1.2`, or a range with exclusions.

    The range excludes the releases between two of the versions that can be foreseen: all numbers in
    the first place that differs, and up to twelve later ones in the places below. pip takes no
    pre-release of the highest version unless a user asks for it.
    """
    ordered = sorted(set(map(Version, versions)))
    if len(ordered) == 1:
        return f"=={ordered[0]}"
    between = [text for pair in pairwise(ordered) for text in _between(*pair)]
    return ",".join([f">={ordered[0]}", f"<={ordered[-1]}", *(f"!={text}" for text in between)])


def _between(low: Version, high: Version) -> Iterator[str]:
    """Yield what lies between two versions, as versions or as prefixes that end in `.*`."""
    for number in range(_POSTS):
        if low < (post := Version(f"{low.base_version}.post{number}")) < high:
            yield str(post)
    for prefix in _prefixes_between(low.release, high.release):
        yield f"{'.'.join(map(str, prefix))}.*"


def _prefixes_between(low: Release, high: Release) -> Iterator[Release]:
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
        yield from _numbered(lower[:place], lower[place] + 1, lower[place] + 1 + _LATER)
    yield from _numbered(first[:fork], first[fork] + 1, last[fork])
    # Before the higher one.
    for place in range(fork + 1, len(last)):
        yield from _numbered(last[:place], 0, last[place])


def _numbered(stem: Release, start: int, end: int) -> Iterator[Release]:
    yield from ((*stem, number) for number in range(start, end))


def _padded(release: Release, length: int) -> Release:
    return release + (0,) * (length - len(release))


# --- the tag --------------------------------------------------------------------------------------


def wheel_tag(plan: Plan) -> str:
    """Return the wheel's tag: any Python 3, no ABI, and jaxlib's own platform for native code.

    PlanError for executables and portable forms anywhere but on Linux: see `pins`.
    """
    platform = plan.environment.wheel_platform if plan.native else "any"
    if plan.native and any(u.target.is_portable for u in plan.units) and "linux" not in platform:
        msg = (
            f"{plan.manifest.file}: targets: expected a machine with Linux, found {platform}\n"
            "A wheel with executables and portable forms requires one exact jaxlib on Linux alone. "
            "Build it there, or leave out `portable`."
        )
        raise PlanError(msg)
    return f"py3-none-{platform}"


def tag_for_all(tag: str, build_data: Mapping[str, Any], inferred: Callable[[], str]) -> str:
    """Return the wheel's tag for the executables and for what hooks before this one added.

    `tag` is that of the executables, which any Python 3 loads. A hook that builds an extension
    module sets a tag itself or has hatchling infer it.
    """
    asked = build_data.get("tag") or (inferred() if build_data.get("infer_tag") else "")
    if asked.count("-") != 2:
        return tag
    python, abi, platform = asked.split("-")
    return f"{python}-{abi}-{tag.split('-')[2] if platform == 'any' else platform}"


def joined_tag(tags: Iterable[str]) -> str | None:
    """Return the compressed tag of several, such as `py3-none-a.b`; None if there is none.

    A wheel for `any` platform has portable forms alone. Joined with executables, it fits where they
    fit.
    """
    sets = [[part.split(".") for part in tag.split("-")] for tag in tags]
    wanted = {single for parts in sets for single in product(*parts)}
    wanted = {single for single in wanted if single[-1] != "any"} or wanted
    columns = [sorted(set(column)) for column in zip(*wanted, strict=True)]
    if wanted != set(product(*columns)):
        return None
    return "-".join(".".join(column) for column in columns)


def with_tags(text: str, tag: str) -> str:
    """Return a WHEEL file with the `Tag` lines of a compressed tag."""
    lines = text.replace("\r\n", "\n").rstrip("\n").split("\n")
    kept = [line for line in lines if not line.startswith("Tag:")]
    tags = product(*(part.split(".") for part in tag.split("-")))
    return "\n".join([*kept, *(f"Tag: {'-'.join(single)}" for single in tags), ""])
