"""What `plan` can say of the size of a wheel: nothing is compiled, so what an earlier build left.

The user's store cannot tell: its keys are made of lowered modules, and `plan` lowers nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aotbuild.report.words import bytes_text

if TYPE_CHECKING:
    from aotbuild.build.plan import BuildUnit
    from aotbuild.cli.project import Project
    from aotbuild.spec.record import Record


@dataclass(frozen=True)
class KnownSize:
    """What the executables of some units of a plan have in the `_aot` folder of an earlier build.

    `size` is in bytes, compressed as in a wheel if that could matter; equal blobs count once.
    """

    folder: Path
    size: int
    units: int
    total: int
    note: str | None

    def __str__(self) -> str:
        return f"{bytes_text(self.size)} for {self.units} of {self.total} units in {self.folder}"

    def to_json(self) -> dict[str, Any]:
        """Return it as data."""
        return {
            "folder": str(self.folder),
            "bytes": self.size,
            "units": self.units,
            "warning": self.note,
        }


def known_size(project: Project) -> KnownSize | None:
    """Return what an earlier build tells of a project; None without one that can be read."""
    artifacts = project.sources.artifacts
    places = (project.sources.import_root / artifacts, Path("build", "aot", artifacts))
    found = (_of_folder(place, project.plan.units) for place in places)
    return max((known for known in found if known), key=lambda known: known.units, default=None)


def _of_folder(folder: Path, units: tuple[BuildUnit, ...]) -> KnownSize | None:
    from aotbuild.build.wheel_size import compressed_size, size_note
    from aotbuild.errors import AotbuildError

    try:
        records = _records(folder)
    except (AotbuildError, OSError):
        return None  # an earlier build that cannot be read tells nothing; this one replaces it
    wanted = {(u.signature_label, str(u.target), u.toolchain.jaxlib) for u in units}
    mine = [record for record in records if wanted & _keys(record, units)]
    files = {folder / blob.path for record in mine for blob in record.blobs()}
    size = compressed_size(file for file in sorted(files) if file.is_file())
    what = f"what {len(mine)} of {len(units)} units made in an earlier build"
    return KnownSize(folder, size, len(mine), len(units), size_note(size, what)) if mine else None


def _records(folder: Path) -> list[Record]:
    from aotbuild.runtime.source import DirectorySource, open_index

    index = open_index(DirectorySource(folder))
    return [record for f in index.functions() for record in index.records(f.name)]


def _keys(record: Record, units: tuple[BuildUnit, ...]) -> set[tuple[str, str, str]]:
    """Return what a unit that made this record is called; a portable one fits every jaxlib."""
    jaxlib = record.requires.jaxlib
    jaxlibs = {jaxlib} if jaxlib else {unit.toolchain.jaxlib for unit in units}
    label = str(record.provenance.get("label", ""))
    return {(label, str(record.target), version) for version in jaxlibs}
