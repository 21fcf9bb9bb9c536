"""Requires-Dist against the records: pip must install what the executables need."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Sequence
from email.parser import HeaderParser
from importlib import metadata
from pathlib import Path

from aotbuild.runtime.distribution import find_owner
from aotbuild.spec.index import INDEX_NAME
from aotbuild.spec.record import Record
from aotbuild.spec.target import ON_LINUX
from aotbuild.verify.archive import read_metadata
from aotbuild.verify.outcome import Outcome, concluded, not_checked
from aotbuild.verify.specifiers import Requirement, parse_requirement, parse_version

CHECK = "requirements"


def check_wheel(wheel: Path, records: Sequence[Record]) -> Outcome:
    """Check the METADATA of a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        try:
            text = read_metadata(archive, "METADATA")
        except ValueError as err:
            return concluded(CHECK, wheel.name, [str(err)])
    required = HeaderParser().parsestr(text).get_all("Requires-Dist") or []
    return concluded(CHECK, wheel.name, problems(required, records))


def check_installed(folder: Path, records: Sequence[Record]) -> Outcome:
    """Check the distribution that an `_aot` folder was installed by."""
    distribution = _owner(folder)
    if distribution is None:
        return not_checked(CHECK, str(folder), "no installed distribution lists this folder")
    name = f"{distribution.name} {distribution.version}"
    return concluded(CHECK, name, problems(distribution.requires or [], records))


def problems(required: Sequence[str], records: Sequence[Record]) -> Iterator[str]:
    """Yield what the records need and `required` (lines of Requires-Dist) does not state."""
    known: dict[str, list[Requirement]] = {}
    for line in required:
        try:
            requirement = parse_requirement(line)
        except ValueError as err:
            yield f"Requires-Dist: {line!r}: {err}"
            continue
        if requirement.marker in ("", ON_LINUX):
            known.setdefault(requirement.name, []).append(requirement)
    natives = [record for record in records if not record.target.is_portable]
    for version in sorted({r.requires.jaxlib for r in natives if r.requires.jaxlib is not None}):
        yield from _exact("jaxlib", version, known)
    for needed in _unpinned(records):
        if needed not in known:
            yield f"expected Requires-Dist: {needed}, found none"


def _exact(name: str, version: str, known: dict[str, list[Requirement]]) -> Iterator[str]:
    found = known.get(name, [])
    if not any(_allows(requirement, version) for requirement in found):
        stated = ", ".join(map(str, found)) or "none"
        yield f"expected Requires-Dist: {name}=={version} without a condition, found {stated}"


def _allows(requirement: Requirement, version: str) -> bool:
    """Return whether a requirement allows a version, as a record has it, and no later ones."""
    try:
        return requirement.is_closed and requirement.allows(parse_version(version))
    except ValueError:
        return False


def _unpinned(records: Sequence[Record]) -> Iterator[str]:
    yield "aotbuild"
    if any(record.target.is_portable for record in records):
        yield from ("flatbuffers", "jaxlib")


def _owner(folder: Path) -> metadata.Distribution | None:
    """Return the distribution whose RECORD lists the index of an `_aot` folder."""
    index = folder.resolve() / INDEX_NAME
    found = (find_owner(site, index.relative_to(site).as_posix()) for site in index.parents[1:])
    return next((owner for owner in found if owner is not None), None)
