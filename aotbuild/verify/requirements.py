"""Requires-Dist against the records: pip must install what the executables need."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from email.parser import HeaderParser
from importlib import metadata
from itertools import islice, pairwise
from pathlib import Path

from aotbuild.format.archives import RegularZip
from aotbuild.format.index import INDEX_NAME
from aotbuild.format.left_out import read_left_out
from aotbuild.format.record import Record
from aotbuild.format.releases import dotted, prefixes_between
from aotbuild.format.target import ON_LINUX
from aotbuild.runtime.distribution import find_owner
from aotbuild.verify.archive import read_metadata
from aotbuild.verify.outcome import Outcome, concluded, not_checked
from aotbuild.verify.specifiers import Requirement, Version, parse_requirement, parse_version

CHECK = "requirements"
_VERSIONED = ("jax", "jaxlib")
# Conditions of jaxlib, its versions, and those between them: dozens in a wheel of some versions.
_MOST_CONDITIONS, _MOST_VERSIONS, _MOST_TRIED = 5_000, 200, 1_000


def check_wheel(wheel: Path, records: Sequence[Record], header: Mapping[str, object]) -> Outcome:
    """Check the METADATA of a wheel against its records and the header of its index."""
    with RegularZip(wheel) as archive:
        try:
            text = read_metadata(archive, "METADATA")
        except ValueError as err:
            return concluded(CHECK, wheel.name, [str(err)])
    required = HeaderParser().parsestr(text).get_all("Requires-Dist") or []
    return concluded(CHECK, wheel.name, problems(required, records, header))


def check_installed(
    folder: Path, records: Sequence[Record], header: Mapping[str, object]
) -> Outcome:
    """Check the distribution that an `_aot` folder was installed by."""
    distribution = _owner(folder)
    if distribution is None:
        return not_checked(CHECK, str(folder), "no installed distribution lists this folder")
    name = f"{distribution.name} {distribution.version}"
    return concluded(CHECK, name, problems(distribution.requires or [], records, header))


def problems(
    required: Sequence[str], records: Sequence[Record], header: Mapping[str, object]
) -> Iterator[str]:
    """Yield how `required` (lines of Requires-Dist) is not what the records need.

    `header` is that of the index: it has the versions of all wheels of a build, while records may
    be those of some. An installer takes a version that every line allows, so every line counts.
    """
    known: dict[str, list[Requirement]] = {}
    for line in required:
        try:
            requirement = parse_requirement(line)
        except ValueError as err:
            yield f"Requires-Dist: {line!r}: {err}"
            continue
        if requirement.url and requirement.name in _VERSIONED and "extra" not in requirement.marker:
            yield f"Requires-Dist: {line!r}: expected versions, found a URL, which may be of any"
        elif requirement.marker in ("", ON_LINUX):
            known.setdefault(requirement.name, []).append(requirement)
    yield from _jaxlib_problems(known.get("jaxlib", []), records, header)
    for version in _stated(header, "jax") if "jax" in known else ():
        yield from _not_allowed(known["jax"], version)
    for needed in _unpinned(records):
        if needed not in known:
            yield f"expected Requires-Dist: {needed}, found none"


def _jaxlib_problems(
    lines: Sequence[Requirement], records: Sequence[Record], header: Mapping[str, object]
) -> Iterator[str]:
    """Yield how the lines of jaxlib allow another version than the executables run with."""
    if sum(len(line.specifiers) for line in lines) > _MOST_CONDITIONS:
        yield f"Requires-Dist: jaxlib has more than {_MOST_CONDITIONS:,} conditions"
        return
    natives = {r.requires.jaxlib for r in records if not r.target.is_portable}
    needed = sorted(version for version in natives if version is not None)
    stated = _stated(header, "jaxlib")
    if len(needed) + len(stated) > _MOST_VERSIONS:
        yield f"the index is of more than {_MOST_VERSIONS} versions of jaxlib"
        return
    refused = [
        problem
        for version in needed or (stated if lines else ())
        for problem in _not_allowed(lines, version)
    ]
    yield from refused
    if refused or not (needed or (records and stated)):
        return
    try:
        versions = {parse_version(version) for version in (*needed, *stated, *_left_out(header))}
    except ValueError as err:
        yield f"a jaxlib of the index is {err}"
        return
    ordered = sorted(versions, key=lambda version: version.public)
    allowed = _others(lines, ordered, is_native=bool(needed))
    if allowed is not None:
        alone = ", ".join(sorted({*needed, *stated}))
        expected = f"{alone} alone" if needed else f">={alone}"
        yield (
            f"expected Requires-Dist: jaxlib, {expected}, without a condition, "
            f"found {_shown(lines)}, which allows {allowed}"
        )


def _not_allowed(lines: Sequence[Requirement], version: str) -> Iterator[str]:
    """Yield that no line names a version, as a record or header has it, or that one excludes it."""
    if not lines or not all(_allows(line, version) for line in lines):
        name = lines[0].name if lines else "jaxlib"
        found = _shown(lines)
        yield f"expected Requires-Dist: {name}=={version} without a condition, found {found}"


def _allows(requirement: Requirement, version: str) -> bool:
    try:
        return requirement.allows(parse_version(version))
    except ValueError:
        return False


def _shown(lines: Sequence[Requirement]) -> str:
    return ", ".join(map(str, lines)) or "none"


def _others(
    lines: Sequence[Requirement], versions: Sequence[Version], *, is_native: bool
) -> str | None:
    """Return which other versions all lines allow, or None: portable forms run with later ones.

    `versions` are sorted. Of those between two of them, the next ones are tried: a specifier can
    exclude only what its build could foresee.
    """
    named = [
        specifier
        for line in lines
        for specifier in line.specifiers
        if not specifier.text.endswith(".*")
    ]
    lowest, highest = versions[0].public, versions[-1].public
    if not any(s.operator in ("==", ">=") and s.version.public >= lowest for s in named):
        return "older ones"
    if not is_native:
        return None
    if not any(s.operator in ("==", "<=") and s.version.public <= highest for s in named):
        return "later ones"
    between = (
        dotted(release)
        for low, high in pairwise(versions)
        for release in prefixes_between(low.release, high.release, later=1)
    )
    tried = islice(between, _MOST_TRIED)
    return next((text for text in tried if all(_allows(line, text) for line in lines)), None)


def _stated(header: Mapping[str, object], name: str) -> list[str]:
    """Return the versions of jax or jaxlib that the header of an index names."""
    return [version for version in str(header.get(name, "")).split(", ") if version]


def _left_out(header: Mapping[str, object]) -> Iterator[str]:
    """Yield the versions of units that failed: the wheel's requirements were planned with them."""
    with suppress(ValueError):  # the check of records says so
        yield from (u.jaxlib for u in read_left_out(header).units if u.jaxlib is not None)


def _unpinned(records: Sequence[Record]) -> Iterator[str]:
    yield "aotbuild"
    if any(record.target.is_portable for record in records):
        yield from ("flatbuffers", "jaxlib")


def _owner(folder: Path) -> metadata.Distribution | None:
    """Return the distribution whose RECORD lists the index of an `_aot` folder."""
    index = folder.resolve() / INDEX_NAME
    found = (find_owner(site, index.relative_to(site).as_posix()) for site in index.parents[1:])
    return next((owner for owner in found if owner is not None), None)
