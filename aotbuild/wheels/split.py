"""Splitting a wheel: a base with the code, and a companion for each family of targets."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path

from packaging.utils import canonicalize_name

from aotbuild.errors import WheelRefused
from aotbuild.format.index import COMPANIONS, FOLDER_NAME
from aotbuild.format.layout import ENTRY_POINTS, PART, SPLIT, part_package
from aotbuild.format.record import Record
from aotbuild.format.target import HOST, PORTABLE
from aotbuild.platforms.base import known_names
from aotbuild.wheels.metadata import Companion, companion_metadata, with_companions
from aotbuild.wheels.wheel_files import (
    File,
    NewFolder,
    NewWheel,
    OpenedWheel,
    WheelName,
    open_wheel,
    write_all,
)

# A target's family is its platform.
FAMILIES = (*known_names(), PORTABLE)
KEPT = (HOST, PORTABLE)


def split(wheel: Path, out: Path, keep: Collection[str] = KEPT) -> list[Path]:
    """Write the base and the companions of a wheel into a folder; `keep` stays in the base.

    Raises WheelRefused if the wheel fails a check, is a part already, or has nothing to split off.
    """
    with open_wheel(wheel) as opened:
        found = {record.target.platform for record in opened.built.records}
        families = sorted(found - set(keep))
        if not families:
            problem = "all of its executables are of what the base keeps"
            reasons = [f"found {', '.join(sorted(found))}"]
            remedy = "Keep less in the base (--keep), or ship the wheel as it is."
            raise WheelRefused(str(wheel), problem, reasons, remedy)
        companions = [
            Companion.of(family, opened.distribution[0], _records_of(opened, [family]))
            for family in families
        ]
        base = _base(opened, companions, keep)
        return write_all([base, *(_companion(opened, each) for each in companions)], out)


def _records_of(opened: OpenedWheel, families: Collection[str]) -> list[Record]:
    return [each for each in opened.built.records if each.target.platform in families]


def _base(opened: OpenedWheel, companions: Iterable[Companion], keep: Collection[str]) -> NewWheel:
    header = {
        **opened.built.header,
        SPLIT: opened.digest,
        COMPANIONS: {each.part: each.distribution for each in companions},
    }
    records = _records_of(opened, keep)
    metadata = with_companions(opened.metadata, companions, opened.distribution[1])
    return NewWheel(
        name=opened.name,
        info=opened.info,
        model=opened.model,
        files=opened.files(),
        place=opened.folder,
        folder=NewFolder(header, opened.built.functions, records, [opened.built]),
        changed={"METADATA": metadata.encode()},
    )


def _companion(opened: OpenedWheel, companion: Companion) -> NewWheel:
    package, part = str(opened.built.header["package"]), companion.part
    home, records = part_package(package, part), _records_of(opened, [part])
    called = {record.function for record in records}
    functions = [each for each in opened.built.functions if each.name in called]
    code = f'"""Executables of {package} for {part}, found by aotbuild.load({package!r})."""\n'
    name = WheelName(
        canonicalize_name(companion.distribution).replace("-", "_"),
        opened.name.version,
        opened.name.tag,
    )
    header = {**opened.built.header, SPLIT: opened.digest, PART: part}
    return NewWheel(
        name=name,
        info=f"{name.distribution}-{name.version.partition('-')[0]}.dist-info",
        model=opened.model,
        files=[File.made(f"{home}/__init__.py", opened.model, code.encode())],
        place=f"{home}/{FOLDER_NAME}/",
        folder=NewFolder(header, functions, records, [opened.built]),
        changed={
            "METADATA": companion_metadata(opened.metadata, companion).encode(),
            "WHEEL": opened.archive.read(f"{opened.info}/WHEEL"),
            "entry_points.txt": f"[{ENTRY_POINTS}]\n{package} = {home}\n".encode(),
        },
    )
