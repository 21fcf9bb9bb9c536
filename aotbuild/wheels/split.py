"""Splitting a wheel: a base with the code, and a companion for each family of targets."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from aotbuild.errors import WheelRefused
from aotbuild.platforms.base import known_names
from aotbuild.spec.index import COMPANIONS, FOLDER_NAME
from aotbuild.spec.parts import (
    ENTRY_POINTS,
    PART,
    SPLIT,
    part_distribution,
    part_package,
    whole_header,
)
from aotbuild.spec.record import Record
from aotbuild.spec.signature import Function
from aotbuild.spec.target import HOST, PORTABLE
from aotbuild.wheels.attachments import absent_stages, note_if_left_out, split_stages
from aotbuild.wheels.draft import Artifacts, Draft, Written, write_all
from aotbuild.wheels.metadata import companion_metadata, with_companions
from aotbuild.wheels.opened import OpenedWheel, WheelName, open_wheel
from aotbuild.wheels.writing import made

# A target's family is its platform.
FAMILIES = (*known_names(), PORTABLE)
KEPT = (HOST, PORTABLE)

SIGN_AGAIN = (
    "the signature of {} is left out, for the indexes are new: run `aotbuild sign` on each wheel"
)


def split(wheel: Path, out: Path, keep: Collection[str] = KEPT) -> Written:
    """Write the base and the companions of a wheel into a folder; `keep` stays in the base.

    Raises WheelRefused if the wheel fails a check, is a part already, or has nothing to split off.
    """
    with open_wheel(wheel) as opened:
        families = families_of(opened, keep)
        sbom, notes = note_if_left_out([opened])
        notes += absent_stages([opened]) + signature_notes([opened])
        drafts = [
            _base(opened, families, keep, sbom),
            *(_companion(opened, family, sbom) for family in families),
        ]

        def stages(draft: Draft, path: Path) -> Iterator[Path]:
            return split_stages([opened], draft.artifacts.records, path)

        written = write_all(drafts, out, stages)
    return Written(written.wheels, written.beside, tuple(notes))


def families_of(opened: OpenedWheel, keep: Collection[str]) -> list[str]:
    """Return the families to split off, sorted; WheelRefused if there are none."""
    if opened.split is not None:
        problem = "it is a companion" if opened.part else "it was split before"
        remedy = "Split the wheel that the build made; `aotbuild merge` puts parts together again."
        raise WheelRefused(str(opened.path), problem, [], remedy)
    found = {record.target.platform for record in opened.records}
    families = sorted(found - set(keep))
    if not families:
        remedy = "Keep less in the base (--keep), or ship the wheel as it is."
        problem = "all of its executables are of what the base keeps"
        raise WheelRefused(str(opened.path), problem, [f"found {', '.join(sorted(found))}"], remedy)
    return families


def records_of(opened: OpenedWheel, families: Collection[str]) -> list[Record]:
    """Return the records of these families."""
    return [record for record in opened.records if record.target.platform in families]


def functions_of(opened: OpenedWheel, records: Sequence[Record]) -> list[Function]:
    """Return the functions that have a record among these."""
    called = {record.function for record in records}
    return [function for function in opened.functions if function.name in called]


def signature_notes(wheels: Sequence[OpenedWheel]) -> list[str]:
    """Return a note for each wheel that was signed."""
    return [SIGN_AGAIN.format(wheel.path.name) for wheel in wheels if wheel.is_signed]


def _base(opened: OpenedWheel, families: list[str], keep: Collection[str], sbom: bool) -> Draft:
    name, version = opened.distribution
    companions = {family: part_distribution(name, family) for family in families}
    header = {**whole_header(opened.index.header), SPLIT: opened.digest, COMPANIONS: companions}
    metadata = with_companions(opened.metadata, companions, version)
    records = records_of(opened, keep)
    artifacts = Artifacts(opened.folder, header, opened.functions, records, [opened])
    return Draft.like(opened, artifacts, {"METADATA": metadata.encode()}, sbom=sbom)


def _companion(opened: OpenedWheel, part: str, sbom: bool) -> Draft:
    package = str(opened.index.header["package"])
    home = part_package(package, part)
    name = part_distribution(opened.distribution[0], part)
    records = records_of(opened, [part])
    functions = functions_of(opened, records)
    header = {**whole_header(opened.index.header), SPLIT: opened.digest, PART: part}
    code = f'"""Executables of {package} for {part}, found by aotbuild.load({package!r})."""\n'
    wheel = WheelName(_escaped(name), opened.name.version, opened.name.tag)
    return Draft(
        name=wheel,
        info=f"{wheel.distribution}-{wheel.version.partition('-')[0]}.dist-info",
        distribution=(name, opened.distribution[1]),
        model=opened.model,
        files=[made(f"{home}/__init__.py", opened.model, code.encode())],
        artifacts=Artifacts(f"{home}/{FOLDER_NAME}/", header, functions, records, [opened]),
        changed={
            "METADATA": companion_metadata(opened.metadata, name, part).encode(),
            "WHEEL": opened.archive.read(f"{opened.info}/WHEEL"),
            "entry_points.txt": f"[{ENTRY_POINTS}]\n{package} = {home}\n".encode(),
        },
        sbom=sbom,
    )


def _escaped(name: str) -> str:
    from packaging.utils import canonicalize_name

    return canonicalize_name(name).replace("-", "_")
