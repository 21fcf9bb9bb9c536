"""Wheels to split and merge: made by hand from real records, and installed by unpacking."""

from __future__ import annotations

import dataclasses
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from attacks import wheels

from aotbuild.format.canonical import sha256_hex
from aotbuild.format.protobuf import bytes_field
from aotbuild.format.record import Blob
from aotbuild.format.target import Target
from support.packages import Built

NOT_CODE = b"not an executable: "


def for_target(built: Built, target: str, **requires: Any) -> Built:
    """Return a record for hardware that is not here; its blob is a text, or no code of that CPU."""
    where = Target.parse(target)
    data = NOT_CODE + target.encode() + built.record.function.encode()
    if where.platform == "cpu":  # what it says of itself is compared with the record
        data = built.blobs[built.record.blob.path] + bytes_field(100, data)
    blob = Blob("pjrt", sha256_hex(data), len(data))
    changes = {"platforms": (where.platform,), "devices": where.devices, "isa": None, **requires}
    if where.platform == "cpu":
        changes["isa"] = where.detail
    record = dataclasses.replace(
        built.record,
        target=where,
        blob=blob,
        requires=dataclasses.replace(built.record.requires, **changes),
        golden=None,
    )
    return Built(built.function, record, {blob.path: data})


def with_provenance(built: Built, **facts: Any) -> Built:
    """Return it with other facts of its making."""
    provenance = {**built.record.provenance, **facts}
    return dataclasses.replace(
        built, record=dataclasses.replace(built.record, provenance=provenance)
    )


def everywhere(built: Iterable[Built]) -> list[Built]:
    """Return records, and for the first one more for a GPU and a TPU each."""
    built = list(built)
    cuda = for_target(built[0], "cuda:h100-sxm:1", capability="9.0a", cuda="12.8.0")
    return [*built, cuda, for_target(built[0], "tpu:v5e:2x2:1")]


def put_wheel(
    path: Path,
    built: Iterable[Built],
    *,
    requires: Iterable[str] = wheels.REQUIRES,
    changes: wheels.Files | None = None,
    header: dict[str, Any] | None = None,
) -> Path:
    """Write an honest wheel of these records; `changes` are further or other files."""
    aot = wheels.aot_files(built)
    if header:
        aot["index"] = _with_header(aot["index"], header)
    files = {**wheels.wheel_files(aot, requires), **(changes or {})}
    path.parent.mkdir(parents=True, exist_ok=True)
    return wheels.write_wheel(path, wheels.with_record(files).items())


def _with_header(index: bytes, changes: dict[str, Any]) -> bytes:
    from aotbuild.format.index import Index, write_index

    opened = Index.open(index, "index")
    functions = list(opened.functions())
    records = [record for f in functions for record in opened.records(f.name)]
    header = {key: value for key, value in opened.header.items() if key not in ("objects", "rows")}
    return write_index({**header, **changes}, functions, records)


def unpack(wheel: Path, site: Path) -> None:
    """Install a wheel as pip does, but for the scripts and the compiled files."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)


def contents(wheel: Path) -> dict[str, bytes]:
    """Return every file of a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def text(wheel: Path, suffix: str) -> str:
    """Return the one file of a wheel whose name ends like this."""
    (data,) = [data for name, data in contents(wheel).items() if name.endswith(suffix)]
    return data.decode()
