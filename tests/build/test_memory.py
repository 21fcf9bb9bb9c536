"""Programs that need more memory than their device has: by numbers, and as a note of a build."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.projects import MANIFEST, write_project

from aotbuild.build.pack import build_package
from aotbuild.build.plan import make_plan
from aotbuild.build.project import find_sources
from aotbuild.format.record import MemoryUse, device_memory, memory_use
from aotbuild.manifest import load_manifest
from aotbuild.platforms.building import Hardware
from aotbuild.toolchains.toolchain import probe

pytestmark = pytest.mark.any_jax

SIZES = {"argument_bytes": 6, "output_bytes": 4, "temp_bytes": 1, "alias_bytes": 0}


def test_needed_is_the_larger_of_the_peak_and_the_sum() -> None:
    assert MemoryUse(4, 3, 2, 1).needed == 8
    assert MemoryUse(4, 3, 2, 1, peak=20).needed == 20
    # XLA:CPU leaves temporaries out of its peak.
    assert MemoryUse(4, 3, 2, 1, peak=6).needed == 8
    # A program in the device's memory counts.
    assert MemoryUse(4, 3, 2, code=5, peak=9).needed == 14


@pytest.mark.parametrize("value", [None, -1, True, "9", float("nan"), float("inf"), 1e40])
def test_an_analysis_is_not_believed_everything(value: Any) -> None:
    assert memory_use({**SIZES, "temp_bytes": value}) is None
    use = memory_use({**SIZES, "peak_bytes": value})
    assert use is not None
    assert use.needed == 11
    assert device_memory({"device_bytes": value}) is None


@pytest.mark.process
def test_what_does_not_fit_is_a_note(tmp_path: Path) -> None:
    text = (
        "version: 1\npackage: proj\nfunctions:\n"
        "  double: {call: 'proj.m:double', args: [x: 'f32[n]'], dims: {n: [4, 100]}}\n"
    )
    root = write_project(tmp_path, text, m="def double(x): return x * 2\n")
    manifest = load_manifest(root / MANIFEST)
    plan = make_plan(manifest, probe())
    toy = Hardware(kind="toy", memory=100)
    plan = replace(plan, units=tuple(replace(unit, hardware=toy) for unit in plan.units))
    package = build_package(plan, find_sources(root, manifest.package), root / "out" / "_aot")
    assert [device_memory(record.analysis) for record in package.records] == [100, 100]
    (note,) = package.notes
    assert note.startswith(f"double(n=100): {package.records[0].target}: one device needs 800 B; ")
    assert "toy has 100 B. Make a dim smaller" in note
