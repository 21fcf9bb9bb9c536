"""The memory limit: units that need more than their device has, by numbers and in a build."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.cli import invoke
from support.projects import MANIFEST, write_project
from support.reports import make_record

from aotbuild.build.events import UnitDone
from aotbuild.build.memory_limit import STAGE, check_memory
from aotbuild.build.pack import Package, build_package
from aotbuild.build.plan import BuildUnit, Plan, make_plan
from aotbuild.build.sources import find_sources
from aotbuild.errors import BuildError, ManifestError, UnitFailure
from aotbuild.format.record import MemoryUse, device_memory, gib_text, memory_use
from aotbuild.format.target import Target
from aotbuild.manifest import load_manifest, parse_manifest
from aotbuild.platforms.building import Hardware
from aotbuild.platforms.cpu import describe as cpu
from aotbuild.toolchains.toolchain import Toolchain, probe

GIB = 1 << 30
SIZES = {"argument_bytes": 6 * GIB, "output_bytes": 4 * GIB, "temp_bytes": GIB, "alias_bytes": 0}
L4 = Hardware(kind="NVIDIA L4", memory=22 * GIB)
TEXT = 'version: 1\npackage: proj\nfunctions:\n  f: {call: "proj.m:f", args: [{x: "f32[4]"}]}\n'


def done(hardware: Hardware = L4, target: str = "cuda:l4:1", **analysis: Any) -> UnitDone:
    ((name, function),) = parse_manifest(TEXT).functions.items()
    where = Target.parse(target)
    unit = BuildUnit(name, function, (), (), where, Toolchain("1", "1", "3.11.0"), hardware)
    record = make_record(target=target, analysis={**SIZES, **analysis})
    return UnitDone(unit, record=record)


# --- what is needed -------------------------------------------------------------------------------


def test_needed_is_the_larger_of_the_peak_and_the_sum() -> None:
    assert MemoryUse(4, 3, 2, 1).needed == 8
    assert MemoryUse(4, 3, 2, 1, peak=20).needed == 20
    assert MemoryUse(4, 3, 2, 1, peak=20).embedded == 12
    # XLA:CPU leaves temporaries out of its peak.
    assert MemoryUse(4, 3, 2, 1, peak=6).needed == 8
    assert MemoryUse(4, 3, 2, 1, peak=6).embedded == 0


def test_a_program_in_the_device_s_memory_counts() -> None:
    assert MemoryUse(4, 3, 2, code=5, peak=9).needed == 14


@pytest.mark.parametrize("value", [None, -1, True, "9", float("nan"), float("inf"), 1e40])
def test_an_analysis_is_not_believed_everything(value: Any) -> None:
    assert memory_use({**SIZES, "temp_bytes": value}) is None
    use = memory_use({**SIZES, "peak_bytes": value})
    assert use is not None
    assert use.needed == 11 * GIB
    assert device_memory({"device_bytes": value}) is None


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (1023, "1,023 B"), (1536, "1.5 KiB"), (15.75 * GIB, "15.75 GiB"),
     (2000 * GIB, "2,000 GiB")],
)  # fmt: skip
def test_sizes_are_those_of_data_sheets(size: float, text: str) -> None:
    assert gib_text(size) == text


# --- the limit ------------------------------------------------------------------------------------


def test_what_fits_passes_and_its_record_knows_the_device() -> None:
    result = check_memory(done(), "refuse")
    assert (result.failure, result.notes) == (None, ())
    assert result.record is not None
    assert device_memory(result.record.analysis) == 22 * GIB


def test_what_does_not_fit_fails_with_the_numbers() -> None:
    result = check_memory(done(temp_bytes=13 * GIB, alias_bytes=GIB // 2), "refuse")
    assert result.record is None
    assert result.failure is not None
    assert (result.failure.unit, result.failure.stage) == ("f() for cuda:l4:1", STAGE)
    lines = result.failure.message.splitlines()
    assert lines[0] == (
        "one device needs 22.5 GiB (arguments 6 GiB, outputs 4 GiB, temporaries 13 GiB, "
        "less 512 MiB that outputs share with donated arguments); NVIDIA L4 has 22 GiB"
    )
    assert lines[1].startswith("Make a dim smaller, spread it over more devices (mesh:)")
    assert lines[1].endswith("`memory: warn` makes this a note.")


def test_embedded_arrays_and_the_program_are_named() -> None:
    found = check_memory(done(peak_bytes=30 * GIB, generated_code_bytes=GIB), "refuse").failure
    assert found is not None
    assert "temporaries 1 GiB, embedded arrays 19 GiB, program 1 GiB)" in found.message


def test_the_device_without_a_kind_is_named_by_its_target() -> None:
    found = check_memory(done(Hardware(memory=GIB), "tpu:v5e:2x2:4"), "refuse").failure
    assert found is not None
    assert "; v5e:2x2 has 1 GiB" in found.message


def test_a_warning_is_a_note() -> None:
    result = check_memory(done(temp_bytes=13 * GIB), "warn")
    assert result.failure is None
    assert result.record is not None
    (note,) = result.notes
    assert note.startswith("cuda:l4:1: one device needs 23 GiB (")
    assert note.endswith("; NVIDIA L4 has 22 GiB")


def test_what_jax_does_not_take_of_a_gpu_is_a_note() -> None:
    (note,) = check_memory(done(temp_bytes=7 * GIB), "refuse").notes
    assert note.endswith(
        "NVIDIA L4 has 22 GiB, of which jax takes 75%; where it runs, set "
        "XLA_CLIENT_MEM_FRACTION to more"
    )
    tpu = done(Hardware("TPU v5 lite", 22 * GIB), "tpu:v5e:2x2:4", temp_bytes=7 * GIB)
    assert check_memory(tpu, "refuse").notes == ()


@pytest.mark.parametrize("mode", ["refuse", "warn"])
def test_nothing_is_known_of_a_cpu_or_of_a_portable_form(mode: str) -> None:
    for target in ("cpu:x86-64-v3:1", "portable:cpu:1"):
        huge = done(Hardware(), target, temp_bytes=1000 * GIB)
        assert check_memory(huge, mode) is huge


def test_no_analysis_no_limit() -> None:
    result = check_memory(done(argument_bytes=None), "refuse")
    assert (result.failure, result.notes) == (None, ())


@pytest.mark.parametrize("mode", ["refuse", "warn"])
def test_libtpu_s_own_refusal_is_the_same_failure(mode: str) -> None:
    text = (
        "RESOURCE_EXHAUSTED: Ran out of memory on HBM, the total memory required for HLO "
        "temporaries (17.91G) exceeds available HBM (15.75G)."
    )
    unit = done().unit
    found = check_memory(UnitDone(unit, failure=UnitFailure("f", "compile", text)), mode).failure
    assert found is not None
    assert (found.stage, found.message.startswith(text)) == (STAGE, True)
    assert "The compiler refuses it, whatever `memory:` says." in found.message
    other = UnitDone(unit, failure=UnitFailure("f", "compile", "RESOURCE_EXHAUSTED: no threads"))
    assert check_memory(other, mode) == other


# --- a whole build --------------------------------------------------------------------------------


def project(root: Path, top: str = "") -> Path:
    functions = "".join(
        f"  {name}:\n    call: proj.m:double\n    args: [x: 'f32[n]']\n    dims: {{n: {sizes}}}\n"
        for name, sizes in (("small", "[4]"), ("large", "[100, 200]"))
    )
    text = f"version: 1\npackage: proj\n{top}functions:\n{functions}"
    return write_project(root, text, m="def double(x): return x * 2\n")


def with_hardware(plan: Plan, hardware: Hardware) -> Plan:
    return replace(plan, units=tuple(replace(unit, hardware=hardware) for unit in plan.units))


def build(root: Path) -> Package:
    manifest = load_manifest(root / MANIFEST)
    plan = with_hardware(make_plan(manifest, probe()), Hardware(kind="toy", memory=100))
    return build_package(plan, find_sources(root, manifest.package), root / "out" / "_aot")


@pytest.mark.process
def test_every_unit_that_does_not_fit_is_named(tmp_path: Path) -> None:
    with pytest.raises(BuildError) as caught:
        build(project(tmp_path))
    failures = caught.value.failures
    assert [f.unit.partition(" ")[0] for f in failures] == ["large(n=100)", "large(n=200)"]
    assert {f.stage for f in failures} == {STAGE}
    assert "one device needs 800 B (arguments 400 B, outputs 400 B); toy has 100 B" in str(
        caught.value
    )
    assert not (tmp_path / "out").exists()


@pytest.mark.process
def test_the_manifest_can_ask_for_notes(tmp_path: Path) -> None:
    package = build(project(tmp_path, "memory: warn\n"))
    assert len(package.records) == 3
    assert [note.partition(" one")[0] for note in package.notes] == [
        f"large(n={n}): {package.records[0].target}:" for n in (100, 200)
    ]


def test_the_manifest_s_word_is_one_of_two() -> None:
    expected = "memory: expected refuse or warn, found the text 'ignore'"
    with pytest.raises(ManifestError, match=expected):
        parse_manifest(TEXT + "memory: ignore\n")


@pytest.mark.process
def test_a_unit_that_needs_too_much_ends_the_build(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = project(tmp_path)
    monkeypatch.chdir(root)
    monkeypatch.setattr(cpu, "Hardware", lambda *_, **__: Hardware(kind="toy", memory=100))
    refused = invoke("build", "--json")
    assert refused.exit_code == 4, refused.output
    assert {f["stage"] for f in json.loads(refused.stdout)["failures"]} == {STAGE}
