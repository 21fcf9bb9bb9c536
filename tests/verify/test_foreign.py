"""Records for other hosts: not loaded, no failure, counted; what is for this host is checked."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import jaxlib
import pytest
from attacks import wheels
from attacks.wheels import Built, check, failures

from aotbuild.format import protobuf
from aotbuild.format.canonical import sha256_hex
from aotbuild.format.index import write_index
from aotbuild.format.record import Blob, Requirements
from aotbuild.format.target import Target
from aotbuild.platforms.cpu import host as cpuinfo
from aotbuild.verify.outcome import Status

OTHER = "99.9.9"
CUDA = {"capability": "9.0a", "device_kinds": ("NVIDIA H100 80GB HBM3",)}
CUDA |= {"plugin": ("jax-cuda13-pjrt", "0.10.2"), "cuda": "13.0.0"}
TPU = {"device_kinds": ("TPU v5 lite",), "topology": "2x4", "plugin": ("libtpu", "0.0.42.1")}


@pytest.fixture(scope="module")
def here() -> Built:
    return wheels.make_records()[0]


def foreign(built: Built, target: str, jaxlib_version: str | None = None, **requires: Any) -> Built:
    """Return the same function for another host, with bytes that nothing here may load."""
    where = Target.parse(target)
    data = f"an executable for {target} {jaxlib_version}".encode()
    if where.platform == "cpu":  # what it says of itself is compared with the record
        (code,) = built.blobs.values()
        data = code + protobuf.bytes_field(100, data)
    needs = Requirements(
        where.platforms,
        where.devices,
        where.processes,
        where.detail if where.platform == "cpu" else None,
        jaxlib_version or jaxlib.__version__,
        **requires,
    )
    mesh: dict[str, Any] = {}
    if where.devices > 1:
        mesh = {"mesh": (("d", where.devices),), "in_specs": ((None,),), "out_specs": ((None,),)}
    record = dataclasses.replace(
        built.record,
        target=where,
        requires=needs,
        blob=Blob("pjrt", sha256_hex(data), len(data)),
        calling=dataclasses.replace(built.record.calling, **mesh),
    )
    return dataclasses.replace(built, record=record, blobs={record.blob.path: data})


def fat(built: Built) -> list[Built]:
    """Return what a wheel for many hosts has."""
    return [
        built,
        foreign(built, "cuda:h100-sxm:1", **CUDA),
        foreign(built, "cuda:h100-sxm:1", OTHER, **CUDA),
        foreign(built, "tpu:v5e:2x4:8@2", **TPU),
        foreign(built, "cpu:x86-64-v3:1", OTHER),
        foreign(built, f"cpu:{absent_level()}:1"),
    ]


def absent_level() -> str:
    return "aarch64" if cpuinfo.architecture() == "x86_64" else "x86-64-v3"


def folder(tmp_path: Path, built: list[Built]) -> Path:
    header = {"package": "demo", "fallback": "none", "jaxlib": f"{jaxlib.__version__}, {OTHER}"}
    files = {path: data for item in built for path, data in item.blobs.items()}
    index = write_index(header, [built[0].function], [item.record for item in built])
    return wheels.write_folder(tmp_path / "demo" / "_aot", {"index": index, **files})


@pytest.mark.process
def test_what_is_for_other_hosts_is_counted_and_no_failure(here: Built, tmp_path: Path) -> None:
    report = check(folder(tmp_path, fat(here)), load=True)
    assert (failures(report), report.passed) == ({}, True)
    found = [(o.status, o.reasons) for o in report.outcomes if o.check == "load"]
    assert [item for item in found if item[0] is Status.PASS] == [(Status.PASS, ())]
    cuda, *others = report.not_loaded.items()
    assert cuda == ("platform: expected cuda, found cpu", 2)
    assert [number for _, number in others] == [1, 1, 1]
    assert "platform: expected tpu, found cpu" in dict(others)
    golden = [o for o in report.outcomes if o.check == "golden"]
    assert len(golden) == len(found)
    assert {o.status for o in golden} == {Status.NOT_CHECKED}


def test_damage_in_what_is_for_other_hosts_is_found(here: Built, tmp_path: Path) -> None:
    built = fat(here)
    place = folder(tmp_path, built)
    (place / built[3].record.blob.path).write_bytes(b"other bytes")
    report = check(place, load=True)
    assert list(failures(report)) == ["blobs"]
