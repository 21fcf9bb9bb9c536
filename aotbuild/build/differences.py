"""What differs between two builds of one plan: which unit, which part of it, and which bytes."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aotbuild.build.pack import Package
from aotbuild.format.canonical import canonical_json
from aotbuild.format.index import INDEX_NAME
from aotbuild.format.layout import BLOBS
from aotbuild.format.protobuf import Field, Malformed, bytes_of, fields, varint
from aotbuild.format.record import Record
from aotbuild.format.record_json import record_to_json
from aotbuild.format.target import HOST

# The result of a compilation is in this field behind the head of an executable for CPUs, and its
# parts are in these. Numbers of xla/service/cpu/executable.proto.
_RESULT = 1
_PARTS = {1: "HLO module", 2: "buffer assignment", 6: "thunks", 8: "object file"}
_DIGEST = re.compile("[0-9a-f]{64}")
_SHOWN = 8
# What the blob of a unit is called.
EXECUTABLE = "executable"


@dataclass(frozen=True)
class Difference:
    """One difference: of a unit, or of the folder where `unit` is empty.

    `part` is a field of the unit's record, or what the field names; `where` is the place in its
    bytes. `first` and `second` are what two builds have there.
    """

    unit: str
    part: str
    where: str
    first: str
    second: str

    def __str__(self) -> str:
        place = f"{self.part}, {self.where}" if self.where else self.part
        return f"{place}: {self.first} in one build, {self.second} in the other"


def differences(one: Package, other: Package) -> list[Difference]:
    """Return what differs between two packages, unit by unit; nothing if all bytes are equal."""
    found = [*_of_units(one, other)]
    # The index has all records in it, and blobs have the digests of their bytes as names.
    return found or [*_of_folders(one.folder, other.folder)]


def _of_units(one: Package, other: Package) -> Iterator[Difference]:
    first, second = _records(one), _records(other)
    for unit in {**first, **second}:
        if unit not in first or unit not in second:
            here, there = ("built" if unit in records else "missing" for records in (first, second))
            yield Difference(unit, "unit", "", here, there)
            continue
        on_host = first[unit].target.platform == HOST
        for path, old, new in _walk(_plain(first[unit]), _plain(second[unit])):
            if _is_blob(old) and _is_blob(new):
                files = [
                    _file(package.folder, blob) for package, blob in ((one, old), (other, new))
                ]
                yield _of_blobs(unit, path, files, (old, new), executable=on_host)
            else:
                yield Difference(unit, ".".join(path), "", _text(old), _text(new))


def _records(package: Package) -> dict[str, Record]:
    units = map(str, package.plan.units)
    return dict(zip(units, package.records, strict=True))


def _plain(record: Record) -> Any:
    return json.loads(canonical_json(record_to_json(record)))


def _walk(one: Any, other: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[Any, Any, Any]]:
    """Yield the places where two JSON values differ, and what is there."""
    if one == other:
        return
    if isinstance(one, dict) and isinstance(other, dict):
        for key in sorted({*one, *other}):
            yield from _walk(one.get(key), other.get(key), (*path, key))
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        if _is_blob(one) and _is_blob(other):
            yield path, one, other
            return
        for number, pair in enumerate(zip(one, other, strict=True)):
            yield from _walk(*pair, (*path, str(number)))
    else:
        yield path, one, other


def _is_blob(value: Any) -> bool:
    return (
        isinstance(value, list)
        and len(value) == 3
        and [type(item) for item in value] == [str, str, int]
        and _DIGEST.fullmatch(value[1]) is not None
    )


def _file(folder: Path, blob: Sequence[Any]) -> Path:
    kind, digest, _ = blob
    return folder / BLOBS / f"{digest}.{kind}"


def _of_blobs(
    unit: str,
    path: Sequence[str],
    files: Sequence[Path],
    blobs: Sequence[Sequence[Any]],
    *,
    executable: bool,
) -> Difference:
    part = EXECUTABLE if tuple(path) == ("blob",) else ".".join(path)
    if not all(file.exists() for file in files):
        # Stages that the manifest keeps beside the folder.
        return Difference(unit, part, "", *(f"sha256 {digest[:16]}…" for _, digest, _ in blobs))
    one, other = (file.read_bytes() for file in files)
    if executable and part == EXECUTABLE:
        return Difference(unit, part, *_in_executable(one, other))
    return Difference(unit, part, *_in_bytes(one, other))


def _in_executable(one: bytes, other: bytes) -> tuple[str, str, str]:
    """Return where two executables for CPUs differ first, and what is there."""
    try:
        first, second = _parts(one), _parts(other)
    except Malformed:
        return _in_bytes(one, other)
    for number in sorted({*first, *second}):
        old, new = first.get(number, []), second.get(number, [])
        if old == new:
            continue
        name = _PARTS.get(number, f"field {number}")
        if sorted(old) == sorted(new):
            return f"{name}s", "one order", "another order"
        if len(old) != len(new):
            return f"{name}s", str(len(old)), str(len(new))
        at, pair = next((n, p) for n, p in enumerate(zip(old, new, strict=True)) if p[0] != p[1])
        place = f"{name} {at + 1} of {len(old)}" if len(old) > 1 else name
        where, *values = _in_bytes(*pair)
        return f"{place}, {where}", values[0], values[1]
    return _in_bytes(one, other)


def _parts(executable: bytes) -> Mapping[int, list[bytes]]:
    size, at = varint(executable, 0)
    found: dict[int, list[bytes]] = defaultdict(list)
    for field in fields(bytes_of(executable[at + size :], _RESULT)):
        found[field.number].append(_content(field))
    return found


def _content(field: Field) -> bytes:
    return field.value if isinstance(field.value, bytes) else field.whole


def _in_bytes(one: bytes, other: bytes) -> tuple[str, str, str]:
    """Return where bytes differ first, and what is there."""
    pairs = zip(one, other, strict=False)
    at = next((n for n, (old, new) in enumerate(pairs) if old != new), None)
    if at is None:
        return "size", f"{len(one):,} B", f"{len(other):,} B"
    first, second = (data[at : at + _SHOWN].hex(" ") for data in (one, other))
    return f"byte {at:,} of {len(one):,}", first, second


def _text(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 200 else f"{text[:200]}…"


def _of_folders(one: Path, other: Path) -> Iterator[Difference]:
    """Yield files of one folder only, and where the indexes differ."""
    first, second = ({p.relative_to(f).as_posix() for p in f.rglob("*")} for f in (one, other))
    for name in sorted(first ^ second):
        here, there = ("there" if name in names else "missing" for names in (first, second))
        yield Difference("", name, "", here, there)
    for name in sorted(first & second):
        if (one / name).is_file():
            pair = ((one / name).read_bytes(), (other / name).read_bytes())
            if pair[0] != pair[1]:
                yield Difference("", "index" if name == INDEX_NAME else name, *_in_bytes(*pair))
