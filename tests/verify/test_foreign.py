"""Records for other hosts: not loaded, no failure, counted; what is for this host is checked."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import jaxlib
import pytest
from attacks import wheels
from attacks.wheels import Built, check, failures, loads
from support.cli import run

from aotbuild.format import protobuf
from aotbuild.format.canonical import sha256_hex
from aotbuild.format.index import write_index
from aotbuild.format.record import Blob, Record, Requirements
from aotbuild.format.target import Target
from aotbuild.platforms.cpu import host as cpuinfo
from aotbuild.verify import children as process
from aotbuild.verify import other_hosts
from aotbuild.verify.api import NOT_RUN
from aotbuild.verify.other_hosts import KnownHost, reasons_against
from aotbuild.verify.outcome import Outcome, Report, Status

OTHER = "99.9.9"
HERE = KnownHost(("cpu",), jaxlib.__version__)
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


@pytest.mark.process
def test_nothing_is_started_for_them(
    here: Built, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only one process looks for devices; what it would be given to load makes it fail."""
    only_look = "assert json.loads(sys.argv[2]) is None, 'it was given a job'; from {module}"
    monkeypatch.setattr(
        process, "_BOOTSTRAP", process._BOOTSTRAP.replace("from {module}", only_look)
    )
    report = check(folder(tmp_path, fat(here)[1:]), load=True)
    assert [o.status for o in loads(report).values()] == [Status.NOT_CHECKED] * len(loads(report))
    assert sum(report.not_loaded.values()) == 5


@pytest.mark.parametrize("code", ["os._exit(3)", "print('{}')", "print('{\"platforms\": [1]}')"])
@pytest.mark.process
def test_where_nobody_can_look_each_record_says_why(
    here: Built, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    start = f"import json, os, sys; json.loads(sys.argv[2]) is None and {code}; "
    start += "json.loads(sys.argv[2]) is None and os._exit(0); "
    monkeypatch.setattr(process, "_BOOTSTRAP", start + process._BOOTSTRAP)
    report = check(folder(tmp_path, fat(here)[:2]), load=True)
    assert report.passed
    assert sum(report.not_loaded.values()) == 1


@pytest.mark.process
def test_the_command_counts_them(here: Built, tmp_path: Path) -> None:
    place = folder(tmp_path, fat(here))
    lines = run("verify", place).stdout.splitlines()
    start = lines.index("5 of 6 executables were not loaded:")
    assert lines[start + 1] == "  2: platform: expected cuda, found cpu"
    assert "  1: platform: expected tpu, found cpu" in lines[start:]
    assert lines[start + 5 :] == ["nothing failed; what was not checked is not proven"]
    document = json.loads(run("verify", place, "--json").stdout)
    assert document["passed"] is True
    assert list(document["not_loaded"].values()) == [2, 1, 1, 1]
    unread = json.loads(run("verify", place, "--no-run", "--json").stdout)
    assert unread["not_loaded"] == {NOT_RUN: 6}


def test_damage_in_what_is_for_other_hosts_is_found(here: Built, tmp_path: Path) -> None:
    built = fat(here)
    place = folder(tmp_path, built)
    (place / built[3].record.blob.path).write_bytes(b"other bytes")
    report = check(place, load=True)
    assert list(failures(report)) == ["blobs"]


# --- what is known without loading ----------------------------------------------------------------


def record(built: Built, target: str, **requires: Any) -> Record:
    return foreign(built, target, **requires).record


def test_a_platform_without_devices_is_one_reason(here: Built) -> None:
    reasons = reasons_against(record(here, "tpu:v5e:2x4:8", jaxlib_version=OTHER, **TPU), HERE)
    assert reasons == ("platform: expected tpu, found cpu",)


def test_what_only_a_process_with_devices_knows_is_left_to_it(here: Built) -> None:
    with_gpu = KnownHost(("cuda", "cpu"), jaxlib.__version__)
    assert reasons_against(record(here, "cuda:h100-sxm:1", **CUDA), with_gpu) == ()
    other = record(here, "cuda:h100-sxm:1", jaxlib_version=OTHER, **CUDA)
    assert reasons_against(other, with_gpu) == (
        f"jaxlib: expected {OTHER}, found {jaxlib.__version__}",
    )


def test_without_jaxlib_nothing_is_known(here: Built, monkeypatch: pytest.MonkeyPatch) -> None:
    assert (
        reasons_against(
            record(here, "cpu:x86-64-v3:1", jaxlib_version=OTHER), KnownHost(None, None)
        )
        == ()
    )

    def missing(name: str) -> str:
        raise other_hosts.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(other_hosts.metadata, "version", missing)
    assert other_hosts.known_host(("cpu",)) == KnownHost(("cpu",), None)


def test_a_portable_form_can_be_read_anywhere(here: Built) -> None:
    portable = wheels.make_records()[2].record
    assert reasons_against(portable, KnownHost(("cpu",), OTHER)) == ()


def test_features_beyond_a_level_are_a_reason(here: Built) -> None:
    wants = record(here, "cpu:x86-64-v3:1", features=("gfni", "no_such"))
    reasons = reasons_against(wants, HERE)
    assert reasons[-1].startswith("features: " if cpuinfo.architecture() == "x86_64" else "isa: ")


def test_executables_are_counted_by_their_first_reason() -> None:
    custom = "custom calls not registered: f; import the package that registers them first"
    outcomes = [
        Outcome("load", "a", Status.PASS),
        Outcome("load", "b", Status.NOT_CHECKED, (custom, "jaxlib: expected 1, found 2")),
        Outcome("load", "c", Status.NOT_CHECKED, ("no jax",)),
        Outcome("load", "d", Status.NOT_CHECKED, (custom,)),
        Outcome("golden", "d", Status.NOT_CHECKED, (custom,)),
    ]
    assert Report("x", "folder", None, tuple(outcomes)).not_loaded == {custom: 2, "no jax": 1}
