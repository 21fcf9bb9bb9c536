"""Reports on packages for hosts that are not this one, and for several versions of jaxlib."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from support.cli import run
from support.reports import ANALYSIS, HEADER, facts_of, make_function, make_record, write_package

from aotbuild.format.record import Record
from aotbuild.report.diff import diff
from aotbuild.report.diff_words import diff_document, diff_lines
from aotbuild.report.page import page_html
from aotbuild.report.text import executable_rows

OLD, NEW = "0.10.2", "0.12.0.1"
BOTH = {**HEADER, "jax": f"{OLD}, {NEW}", "jaxlib": f"{OLD}, {NEW}"}
H100 = {
    "device_kinds": ("NVIDIA H100 80GB HBM3",),
    "capability": "9.0a",
    "plugin": ("jax-cuda13-pjrt", OLD),
    "cuda": "13.0",
    "cudnn": "9.10",
}
SLICE = {"device_kinds": ("TPU v5 lite",), "topology": "2x4", "plugin": ("libtpu", "0.0.42.1")}
COMPILERS = {"compilers": {"jax-cuda13-pjrt": OLD, "nvidia-cuda-nvcc": "13.0.88"}}


def on_gpu(**changes: Any) -> Record:
    fields: dict[str, Any] = {
        "target": "cuda:h100-sxm:1",
        "requires": H100,
        "analysis": {**ANALYSIS, "peak_bytes": 9_000_000_000, "device_bytes": 84_942_979_072},
        "provenance": {**COMPILERS, "tuning": "none", "jax": OLD, "jaxlib": OLD},
    }
    return make_record(**{**fields, **changes})


def on_tpu() -> Record:
    return make_record(target="tpu:v5e:2x4:8@2", requires=SLICE)


def of_cpus(jaxlib: str, **changes: Any) -> Record:
    provenance = {"cpus": 2, "jax": jaxlib, "jaxlib": jaxlib}
    return make_record(jaxlib=jaxlib, provenance=provenance, data=jaxlib.encode(), **changes)


def every() -> list[Record]:
    return [of_cpus(NEW), of_cpus(OLD), on_gpu(), on_tpu()]


def test_peak_memory_is_shown_with_the_device_s(tmp_path: Path) -> None:
    facts = facts_of(tmp_path, [make_function()], [on_gpu(), on_tpu()])
    assert [row[6] for row in executable_rows(facts.functions[0])] == ["9 GB of 84.9 GB", "1.13 kB"]
    assert "9 GB of 84.9 GB" in page_html(facts)


def test_inspect_shows_each(tmp_path: Path) -> None:
    place = write_package(tmp_path / "pack", [make_function()], every(), BOTH)
    text = run("inspect", "--all", place).stdout
    assert "jax 0.10.2, 0.12.0.1, jaxlib 0.10.2, 0.12.0.1" in text
    assert "TPU v5 lite, topology 2x4, jaxlib 0.10.2, libtpu 0.0.42.1, 8 devices" in text
    document = json.loads(run("inspect", "--all", place, "--json").stdout)
    executables = document["functions"][0]["signatures"][0]["executables"]
    gpu = next(e for e in executables if e["target"].startswith("cuda"))
    assert gpu["device_memory"] == 84_942_979_072
    assert gpu["requires"] == {
        "platforms": ["cuda"],
        "isa": None,
        "features": [],
        "device_kinds": ["NVIDIA H100 80GB HBM3"],
        "capability": "9.0a",
        "topology": None,
        "jaxlib": OLD,
        "plugin": {"name": "jax-cuda13-pjrt", "version": OLD},
        "cuda": "13.0",
        "cudnn": "9.10",
        "devices": 1,
        "processes": 1,
        "x64": False,
        "custom_calls": [],
    }


# --- diff -----------------------------------------------------------------------------------------


def lines(tmp_path: Path, old: list[Record], new: list[Record]) -> list[str]:
    before = facts_of(tmp_path / "old", [make_function()], old)
    after = facts_of(tmp_path / "new", [make_function()], new)
    found = diff(before, after)
    assert diff_document(found, before, after)["different"] == (not found.is_empty)
    return list(diff_lines(found))


def test_another_jaxlib_is_a_change_of_the_executable(tmp_path: Path) -> None:
    found = lines(tmp_path, [of_cpus(OLD)], [of_cpus(NEW)])
    label = "f(batch=1) for cpu:x86-64-v3:1"
    assert f"~ {label}: requires.jaxlib 0.10.2 → 0.12.0.1" in found
    assert not [line for line in found if line.startswith(("+", "-"))]


def test_one_more_jaxlib_is_one_more_executable(tmp_path: Path) -> None:
    found = lines(tmp_path, [of_cpus(OLD)], [of_cpus(OLD), of_cpus(NEW)])
    added = "+ executable f(batch=1) for cpu:x86-64-v3:1 with jaxlib 0.12.0.1"
    assert [line for line in found if line.startswith(("+", "-"))] == [added]
