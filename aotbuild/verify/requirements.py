"""Requires-Dist against the records: pip must install what the executables need."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Sequence
from email.parser import HeaderParser
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

from aotbuild.runtime.distribution import find_owner
from aotbuild.spec.index import INDEX_NAME
from aotbuild.spec.record import Record
from aotbuild.spec.target import ON_LINUX
from aotbuild.verify.archive import read_metadata
from aotbuild.verify.outcome import Outcome, concluded, not_checked

CHECK = "requirements"


def check_wheel(wheel: Path, records: Sequence[Record]) -> Outcome:
    """Check the METADATA of a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        try:
            text = read_metadata(archive, "METADATA")
        except ValueError as err:
            return concluded(CHECK, wheel.name, [str(err)])
    required = HeaderParser().parsestr(text).get_all("Requires-Dist") or []
    return _compared(wheel.name, required, records)


def check_installed(folder: Path, records: Sequence[Record]) -> Outcome:
    """Check the distribution that an `_aot` folder was installed by."""
    distribution = _owner(folder)
    if distribution is None:
        return not_checked(CHECK, str(folder), "no installed distribution lists this folder")
    name = f"{distribution.name} {distribution.version}"
    return _compared(name, distribution.requires or [], records)


def _compared(subject: str, required: Sequence[str], records: Sequence[Record]) -> Outcome:
    if find_spec("packaging") is None:
        # As in an image that has the wheel and jaxlib only, which pip has checked.
        reason = "packaging is not installed here: it understands version specifiers"
        return not_checked(CHECK, subject, reason)
    return concluded(CHECK, subject, problems(required, records))


def problems(required: Sequence[str], records: Sequence[Record]) -> Iterator[str]:
    """Yield what the records need and `required` (lines of Requires-Dist) does not state."""
    from packaging.requirements import InvalidRequirement, Requirement
    from packaging.utils import canonicalize_name

    known: dict[str, list[str]] = {}
    for line in required:
        try:
            requirement = Requirement(line)
        except InvalidRequirement as err:
            yield f"Requires-Dist: {line!r}: {err}"
            continue
        if requirement.marker is None or str(requirement.marker) == ON_LINUX:
            known.setdefault(canonicalize_name(requirement.name), []).append(
                str(requirement.specifier)
            )
    natives = [record for record in records if not record.target.is_portable]
    for version in sorted({r.requires.jaxlib for r in natives if r.requires.jaxlib is not None}):
        yield from _exact("jaxlib", version, known)
    for needed in _unpinned(records):
        if needed not in known:
            yield f"expected Requires-Dist: {needed}, found none"


def _exact(name: str, version: str, known: dict[str, list[str]]) -> Iterator[str]:
    found = known.get(name, [])
    if not any(_allows(specifier, version) for specifier in found):
        stated = ", ".join(name + specifier for specifier in found) or "none"
        yield f"expected Requires-Dist: {name}=={version} without a condition, found {stated}"


def _allows(specifier: str, version: str) -> bool:
    """Return whether a specifier allows a version and has an upper bound."""
    from packaging.specifiers import SpecifierSet

    parts = SpecifierSet(specifier)
    is_closed = any(part.operator in ("==", "<=") for part in parts)
    return is_closed and parts.contains(version, prereleases=True)


def _unpinned(records: Sequence[Record]) -> Iterator[str]:
    yield "aotbuild"
    if any(record.target.is_portable for record in records):
        yield from ("flatbuffers", "jaxlib")


def _owner(folder: Path) -> metadata.Distribution | None:
    """Return the distribution whose RECORD lists the index of an `_aot` folder."""
    index = folder.resolve() / INDEX_NAME
    found = (find_owner(site, index.relative_to(site).as_posix()) for site in index.parents[1:])
    return next((owner for owner in found if owner is not None), None)
