"""Splitting a wheel: a base with the code, and a companion for each family of targets."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from aotbuild.errors import WheelRefused
from aotbuild.format.index import COMPANIONS, FOLDER_NAME
from aotbuild.format.layout import (
    ENTRY_POINTS,
    PART,
    SPLIT,
    part_package,
    whole_header,
)
from aotbuild.format.left_out import LEFT_OUT, AllLeftOut, left_out_header, read_left_out
from aotbuild.format.record import Record
from aotbuild.format.shard import shard_note
from aotbuild.format.signature import Function
from aotbuild.format.target import HOST, PORTABLE
from aotbuild.platforms.base import known_names
from aotbuild.wheels.draft import (
    Artifacts,
    Draft,
    Written,
    absent_stages,
    split_stages,
    write_all,
)
from aotbuild.wheels.metadata import Companion, companion_metadata, with_companions
from aotbuild.wheels.opened import OpenedWheel, WheelName, made, open_wheel

# A target's family is its platform.
FAMILIES = (*known_names(), PORTABLE)
KEPT = (HOST, PORTABLE)


def split(wheel: Path, out: Path, keep: Collection[str] = KEPT) -> Written:
    """Write the base and the companions of a wheel into a folder; `keep` stays in the base.

    Raises WheelRefused if the wheel fails a check, is a part already, or has nothing to split off.
    """
    with open_wheel(wheel) as opened:
        families = families_of(opened, keep)
        notes = absent_stages([opened])
        drafts = [_base(opened, families, keep)]
        drafts += [_companion(opened, family) for family in families]

        def stages(draft: Draft, path: Path) -> Iterator[Path]:
            return split_stages([opened], draft.artifacts.records, path)

        return write_all(drafts, out, stages, notes)


def check_is_whole(opened: OpenedWheel) -> None:
    """Raise WheelRefused if a wheel is a part of one that was split, or a shard of one."""
    if opened.split is not None:
        problem = "it is a companion" if opened.part else "it was split before"
        remedy = "Split the wheel that the build made; `aotbuild merge` puts parts together again."
        raise WheelRefused(str(opened.path), problem, [], remedy)
    if note := shard_note(opened.index.header):
        raise WheelRefused(str(opened.path), note, [], "Split the wheel that it makes.")


def families_of(opened: OpenedWheel, keep: Collection[str]) -> list[str]:
    """Return the families to split off, sorted; WheelRefused if there are none."""
    check_is_whole(opened)
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


def header_for(opened: OpenedWheel, families: Collection[str]) -> dict[str, Any]:
    """Return the header of a wheel, which names only units of these families as left out."""
    header = whole_header(opened.index.header)
    found = read_left_out(header)
    units = tuple(u for u in found.units if u.target.partition(":")[0] in families)
    rest = {key: value for key, value in header.items() if key != LEFT_OUT}
    return {**rest, **left_out_header(AllLeftOut(units, found.more))}


def _base(opened: OpenedWheel, families: list[str], keep: Collection[str]) -> Draft:
    companions = {each.part: each.distribution for each in _companions_of(opened, families)}
    header = {**whole_header(opened.index.header), SPLIT: opened.digest, COMPANIONS: companions}
    records = records_of(opened, keep)
    artifacts = Artifacts(opened.folder, header, opened.functions, records, [opened])
    return Draft.like(opened, artifacts, {"METADATA": _metadata(opened, families)})


def _companions_of(opened: OpenedWheel, families: Iterable[str]) -> list[Companion]:
    name = opened.distribution[0]
    return [Companion.of(family, name, records_of(opened, [family])) for family in families]


def _metadata(opened: OpenedWheel, families: Iterable[str]) -> bytes:
    """Return the METADATA of a base."""
    companions = _companions_of(opened, families)
    return with_companions(opened.metadata, companions, opened.distribution[1]).encode()


def _companion(opened: OpenedWheel, part: str) -> Draft:
    package = str(opened.index.header["package"])
    home = part_package(package, part)
    (companion,) = _companions_of(opened, [part])
    name, records = companion.distribution, records_of(opened, [part])
    functions = functions_of(opened, records)
    header = {**header_for(opened, [part]), SPLIT: opened.digest, PART: part}
    code = f'"""Executables of {package} for {part}, found by aotbuild.load({package!r})."""\n'
    wheel = WheelName(_escaped(name), opened.name.version, opened.name.tag)
    return Draft(
        name=wheel,
        info=f"{wheel.distribution}-{wheel.version.partition('-')[0]}.dist-info",
        distribution=(name, opened.distribution[1]),
        model=opened.model,
        files=[made(f"{home}/__init__.py", opened.model, code.encode())],
        place=1,
        artifacts=Artifacts(f"{home}/{FOLDER_NAME}/", header, functions, records, [opened]),
        changed={
            "METADATA": companion_metadata(opened.metadata, companion).encode(),
            "WHEEL": opened.archive.read(f"{opened.info}/WHEEL"),
            "entry_points.txt": f"[{ENTRY_POINTS}]\n{package} = {home}\n".encode(),
        },
    )


def _escaped(name: str) -> str:
    from packaging.utils import canonicalize_name

    return canonicalize_name(name).replace("-", "_")
