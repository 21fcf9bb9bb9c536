"""`aotbuild plan`: everything that would be compiled, and nothing of the user's imported."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.cli import Result, invoke
from support.projects import write_project

from aotbuild.toolchains.toolchain import probe

MANIFEST = """\
version: 1
package: proj
targets: [cpu, {portable: {platforms: [cpu]}}]
functions:
  scale:
    call: proj.code:scale
    args: [{x: "f32[batch]"}]
    dims: {batch: [1, 8]}
    static: {k: [1, true]}
  norm:
    call: proj.code:norm
    args: [{x: "f32[4]"}]
    mesh: {data: 2}
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return write_project(
        tmp_path / "here", MANIFEST, code="raise SystemExit('imported')\nscale = norm = None\n"
    )


def plan(project: Path, *args: str) -> Result:
    return invoke("plan", str(project / "aot.yaml"), *args)


def test_the_table_has_a_row_for_each_unit(project: Path) -> None:
    result = plan(project)
    assert result.exit_code == 0, result.output
    isa = probe().isa
    lines = [line.split("  ") for line in result.stdout.splitlines()]
    rows = [[cell.strip() for cell in line if cell] for line in lines]
    assert rows[0] == ["FUNCTION", "SIGNATURE", "TARGET", "DEVICES"]
    assert rows[1] == ["scale", "batch=1, k=1", f"cpu:{isa}:1", "1"]
    assert rows[4] == ["scale", "batch=1, k=True", "portable:cpu:1", "1"]
    assert rows[9] == ["norm", "-", f"cpu:{isa}:2", "2"]
    assert rows[12] == ["10 units of 2 functions for proj/_aot"]
    assert rows[13][0] == f"toolchain: {probe().toolchains[0]}"


def test_the_document(project: Path) -> None:
    result = plan(project, "--json")
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    environment = probe()
    names = "version error manifest package toolchains host units notes"
    assert list(document) == names.split()
    assert (document["version"], document["error"], document["package"]) == (1, None, "proj")
    assert document["toolchains"][0]["jax"] == environment.toolchains[0].jax
    assert document["units"][2] == {
        "label": f"scale(batch=1, k=True) for cpu:{environment.isa}:1",
        "function": "scale",
        "dims": {"batch": 1},
        "statics": {"k": True},
        "pad": {},
        "details": {},
        "target": f"cpu:{environment.isa}:1",
        "devices": 1,
        "jaxlib": environment.toolchains[0].jaxlib,
    }


def test_what_the_manifest_leaves_to_the_machine_is_a_note(project: Path) -> None:
    notes = json.loads(plan(project, "--json").stdout)["notes"]
    assert [note.partition(":")[0] for note in notes] == ["targets", "toolchains"]
    manifest = project / "aot.yaml"
    pinned = f"toolchains: [{{jax: {probe().toolchains[0].jax}}}]\nfunctions:"
    text = manifest.read_text().replace("[cpu, {", "[{").replace("functions:", pinned)
    manifest.write_text(text)
    assert json.loads(plan(project, "--json").stdout)["notes"] == []
