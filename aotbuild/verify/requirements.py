"""Requires-Dist against the records: pip must install what the executables need."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from aotbuild.format.dist_info import find_owner
from aotbuild.format.index import INDEX_NAME
from aotbuild.format.record import Record
from aotbuild.format.target import ON_LINUX
from aotbuild.verify.outcome import Outcome, concluded, not_checked

if TYPE_CHECKING:
    from packaging.requirements import Requirement
    from packaging.specifiers import SpecifierSet

CHECK = "requirements"
_NO_PACKAGING = "the package packaging, which reads requirements, is not installed here"


def check_installed(
    folder: Path, records: Sequence[Record], header: Mapping[str, object]
) -> Outcome:
    """Check the distribution that an `_aot` folder was installed by."""
    distribution = _owner(folder)
    if distribution is None:
        return not_checked(CHECK, str(folder), "no installed distribution lists this folder")
    name = f"{distribution.name} {distribution.version}"
    return check_requirements(name, distribution.requires or [], records, header)


def check_requirements(
    subject: str,
    required: Iterable[str],
    records: Sequence[Record],
    header: Mapping[str, object],
) -> Outcome:
    """Check lines of Requires-Dist against the records and the header of an index."""
    try:
        problems = list(_problems(required, records, header))
    except ModuleNotFoundError:  # an image that only runs a wheel may lack it
        return not_checked(CHECK, subject, _NO_PACKAGING)
    return concluded(CHECK, subject, problems)


def _problems(
    required: Iterable[str], records: Sequence[Record], header: Mapping[str, object]
) -> Iterator[str]:
    """Yield how `required` is not what the records need.

    `header` has the versions of all wheels of a build; records may be those of some. An installer
    takes a version that every line allows, so every line counts.
    """
    from packaging.markers import Marker
    from packaging.requirements import InvalidRequirement, Requirement
    from packaging.utils import canonicalize_name

    known: dict[str, list[Requirement]] = {}
    for line in required:
        try:
            requirement = Requirement(line)
        except InvalidRequirement as err:
            yield f"Requires-Dist: {line!r}: {err}"
            continue
        if requirement.marker is None or requirement.marker == Marker(ON_LINUX):
            known.setdefault(canonicalize_name(requirement.name), []).append(requirement)
    native = {r.requires.jaxlib for r in records if not r.target.is_portable}
    needed = sorted(version for version in native if version is not None)
    yield from _version_problems("jaxlib", known, needed, _stated(header, "jaxlib"))
    if "jax" in known:
        yield from _version_problems("jax", known, [], _stated(header, "jax"))
    portable = any(record.target.is_portable for record in records)
    for name in ("aotbuild", *(("flatbuffers", "jaxlib") if portable else ())):
        if name not in known:
            yield f"expected Requires-Dist: {name}, found none"


def _version_problems(
    name: str,
    known: Mapping[str, Sequence[Requirement]],
    needed: Sequence[str],
    stated: Sequence[str],
) -> Iterator[str]:
    """Yield how the lines of a library refuse a version that is needed, or allow another one.

    Executables need exactly `needed`. Portable forms, with `stated` alone, run with later versions.
    """
    from packaging.specifiers import SpecifierSet
    from packaging.version import InvalidVersion, Version

    lines = known.get(name, [])
    found = ", ".join(map(str, lines)) or "none"
    allowed = SpecifierSet(",".join(str(line.specifier) for line in lines))
    has_url = any(line.url for line in lines)  # which may be of any version
    try:
        every = sorted(map(Version, {*needed, *stated}))
        refused = [
            version
            for version in needed or (stated if lines else ())
            if not lines or has_url or not allowed.contains(version, prereleases=True)
        ]
    except InvalidVersion as err:
        yield f"a {name} of the index: {err}"
        return
    for version in refused:
        yield f"expected Requires-Dist: {name}=={version} without a condition, found {found}"
    if refused or not (needed or (lines and stated)):
        return
    other = _other(allowed, every, is_native=bool(needed))
    if other:
        alone = ", ".join(map(str, every))
        expected = f"{alone} alone" if needed else f">={alone}"
        yield f"expected Requires-Dist: {name}, {expected}, found {found}, which allows {other}"


def _other(allowed: SpecifierSet, versions: Sequence[object], *, is_native: bool) -> str | None:
    """Return which other versions are allowed, older or later than these, or None."""
    if allowed.contains(f"{versions[0]}.dev0", prereleases=True):
        return "older ones"
    later = (f"{versions[-1]}.1", f"{versions[-1]}.post1")
    if is_native and any(allowed.contains(each, prereleases=True) for each in later):
        return "later ones"
    return None


def _stated(header: Mapping[str, object], name: str) -> list[str]:
    """Return the versions of jax or jaxlib that the header of an index names."""
    return [version for version in str(header.get(name, "")).split(", ") if version]


def _owner(folder: Path) -> metadata.Distribution | None:
    """Return the distribution whose RECORD lists the index of an `_aot` folder."""
    index = folder.resolve() / INDEX_NAME
    found = (find_owner(site, index.relative_to(site).as_posix()) for site in index.parents[1:])
    return next((owner for owner in found if owner is not None), None)
