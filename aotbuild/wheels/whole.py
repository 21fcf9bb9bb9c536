"""A package put together: a wheel in one piece, or a base with all of its companions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aotbuild.errors import WheelRefused
from aotbuild.format.canonical import sha256_hex
from aotbuild.format.index import write_index
from aotbuild.format.layout import companions_of, whole_header
from aotbuild.format.left_out import read_left_out
from aotbuild.format.record import Record
from aotbuild.wheels.metadata import Companion, without_companions
from aotbuild.wheels.opened import OpenedWheel

_ALL_PARTS = "Give the base and all of its companions, as `aotbuild split` wrote them."


@dataclass(frozen=True)
class Whole:
    """A complete package: the wheel with the code, and its contents before it was split."""

    wheel: OpenedWheel
    parts: tuple[OpenedWheel, ...]
    header: dict[str, Any]
    records: tuple[Record, ...]
    metadata: str

    @property
    def path(self) -> Path:
        """The wheel with the code."""
        return self.wheel.path

    @property
    def failed(self) -> set[str]:
        """The functions of which the header says that all units failed."""
        failed = {unit.function for unit in read_left_out(self.header).units}
        return failed - {record.function for record in self.records}

    def read(self, name: str) -> bytes:
        """Return a file of its `_aot` folder, such as a blob; KeyError if no part has it."""
        wheels = (self.wheel, *self.parts)
        holder = next((w for w in wheels if f"{w.folder}{name}" in w.names), self.wheel)
        return holder.archive.read(f"{holder.folder}{name}")


def make_whole(wheels: Sequence[OpenedWheel]) -> list[Whole]:
    """Return each package of the wheels, complete; WheelRefused if a part is missing."""
    bases = [wheel for wheel in wheels if wheel.part is None]
    digests = {base.split for base in bases}
    orphans = [wheel for wheel in wheels if wheel.part and wheel.split not in digests]
    if orphans:
        problem = "a companion without the base that it was split from"
        raise WheelRefused(str(orphans[0].path), problem, [], _ALL_PARTS)
    return [_whole(base, wheels) for base in bases]


def _whole(base: OpenedWheel, wheels: Sequence[OpenedWheel]) -> Whole:
    header = whole_header(base.index.header)
    if base.split is None:
        return Whole(base, (), header, base.records, base.metadata)
    expected = companions_of(base.index.header)
    found = {wheel.part: wheel for wheel in wheels if wheel.part and wheel.split == base.split}
    missing = [name for part, name in expected.items() if part not in found]
    if missing:
        raise WheelRefused(str(base.path), "companions are missing", missing, _ALL_PARTS)
    parts = tuple(found[part] for part in expected)
    records = (*base.records, *(record for part in parts for record in part.records))
    digest = sha256_hex(write_index(header, base.functions, records))
    if digest != base.split:
        problem = "with its companions, this is not the package that was split"
        reasons = [f"expected the index {base.split}", f"found    the index {digest}"]
        raise WheelRefused(str(base.path), problem, reasons, _ALL_PARTS)
    name, version = base.distribution
    companions = [Companion.of(str(part.part), name, part.records) for part in parts]
    metadata = without_companions(base.metadata, companions, version)
    return Whole(base, parts, header, records, metadata)
