"""A made-up platform: a folder is added to a copy of aotbuild, and nothing else is changed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.projects import write_project

pytestmark = [pytest.mark.process, pytest.mark.any_jax]

ROOT = Path(__file__).parents[2]

FOLDER = {
    "__init__.py": '"""NPUs, which nobody makes."""\n',
    "describe.py": '''
from pydantic import Field

from aotbuild.platforms.building import Description, Hardware
from aotbuild.platforms.options import Devices, Model
from aotbuild.format.target import Target


class NpuOptions(Model):
    """Native executables for NPUs."""

    model: str = Field(description="The model, such as n1")
    devices: Devices | None = Field(default=None, description="How many devices one call uses")


class Npu(Description):
    options = NpuOptions
    summary = "NPUs"
    example = "{model: n1}"

    def parts(self, request):
        return [request.options.model]

    def problems(self, request, versions, machine):
        if request.options.model == "n0":
            yield f"npu: n0 is too old for jax {versions.jax}"

    def expand(self, request, devices, machine):
        if request.options.devices in (None, devices):
            yield Target("npu", request.options.model, devices), Hardware("NPU 1", memory=1 << 30)


PLATFORM = Npu()
''',
    "compile.py": """
import jax

from aotbuild.platforms.building import Compiler


class NpuCompiler(Compiler):
    def devices(self, target, hardware, private):
        return jax.devices("cpu")[: target.devices]

    def requirements(self, target, hardware, data, hlo):
        return {"device_kinds": [hardware.kind], "plugin": ["npu-plugin", "1.0"]}

    def notes(self, record):
        return [f"{record.target} was compiled for a CPU"]


PLATFORM = NpuCompiler()
""",
    "checks.py": """
from aotbuild.platforms.base import Checks, check_kind


def check_firmware(record, host):
    found = host.fact("firmware")
    return None if found == "7" else f"firmware: expected 7, found {found or 'none'}"


class NpuChecks(Checks):
    required = (check_kind, check_firmware)

    def check_target(self, target):
        if target.detail not in ("n0", "n1"):
            msg = f"unknown NPU {target.detail!r}"
            raise ValueError(msg)


PLATFORM = NpuChecks()
""",
    "host.py": """
from aotbuild.platforms.base import HostPart


class NpuHost(HostPart):
    plugins = ("npu-plugin",)

    def facts(self, device):
        return (("firmware", device.firmware),)


PLATFORM = NpuHost()
""",
}
MODEL = "import jax.numpy as jnp\n\n\ndef score(x):\n    return jnp.tanh(x)\n"
MANIFEST = """\
version: 1
package: proj
targets: [cpu, npu: {model: n1}]
functions:
  score: {call: "proj.model:score", args: [x: "f32[4]"]}
"""
# Builds the project in the working directory, and says what a host with and one without the
# firmware makes of it; the path of this aotbuild comes first.
SCRIPT = """
import json
from pathlib import Path
from types import SimpleNamespace
import aotbuild.platforms.base as base
from aotbuild.build.pack import build_package
from aotbuild.build.plan import make_plan
from aotbuild.build.project import find_sources
from aotbuild.manifest import load_manifest
from aotbuild.manifest.model import json_schema
from aotbuild.runtime.compatibility import select
from aotbuild.toolchains.toolchain import probe

manifest = load_manifest("aot.yaml")
plan = make_plan(manifest, probe())
sources = find_sources(Path.cwd(), manifest.package)
package = build_package(plan, sources, sources.import_root / manifest.package / "_aot")
record = next(record for record in package.records if record.target.platform == "npu")

def verdict(**facts):
    host = base.Host("npu", 1, ("NPU 1",), 1, "x86_64", frozenset(), record.requires.jaxlib, False,
                     plugins=base.host_part("npu").installed(), facts=tuple(facts.items()))
    return [str(verdict) for verdict in select(package.records, host)]

device = SimpleNamespace(platform="npu", firmware="7")
print(json.dumps({
    "file": base.__file__,
    "units": [str(unit) for unit in plan.units],
    "targets": [str(record.target) for record in package.records],
    "notes": list(package.notes),
    "plugin": record.requires.plugin,
    "fits": verdict(firmware=dict(base.host_part("npu").facts(device))["firmware"]),
    "old": verdict(firmware="6"),
    "name": base.platform_of(device),
    "schema": json_schema()["definitions"]["TargetMap"]["properties"]["npu"],
}))
"""


@pytest.fixture(scope="module")
def aotbuild(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that holds a copy of aotbuild with one platform more."""
    place = tmp_path_factory.mktemp("copy")
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "aotbuild", place / "aotbuild", ignore=ignored)
    (place / "configs").symlink_to(ROOT / "configs")
    folder = place / "aotbuild" / "platforms" / "npu"
    folder.mkdir()
    for name, text in FOLDER.items():
        (folder / name).write_text(text, encoding="utf-8")
    return place


def python(aotbuild: Path, root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(aotbuild)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_project(tmp_path_factory.mktemp("npu") / "p", MANIFEST, model=MODEL)


@pytest.fixture(scope="module")
def built(aotbuild: Path, project: Path) -> dict[str, Any]:
    """What the script says of the project, which it builds."""
    done = python(aotbuild, project, "-c", SCRIPT)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    assert found["file"].startswith(str(aotbuild))
    return found


def test_a_manifest_asks_for_it(built: dict[str, Any]) -> None:
    assert built["units"][1] == "score() for npu:n1:1"
    assert built["schema"]["description"] == "NPUs"


def test_it_is_compiled_and_packaged(built: dict[str, Any]) -> None:
    assert built["targets"][1] == "npu:n1:1"
    assert built["plugin"] == ["npu-plugin", "1.0"]
    assert built["notes"] == ["score(): npu:n1:1 was compiled for a CPU"]


def test_the_runtime_selects_and_refuses_it(built: dict[str, Any]) -> None:
    assert built["fits"][0] == "score() npu:n1:1: OPTIMAL"
    assert built["old"][0].endswith("REFUSED: firmware: expected 7, found 6")
    assert built["fits"][1].endswith("platform: expected cpu, found npu")
    assert built["name"] == "npu"


def test_inspect_shows_it(aotbuild: Path, project: Path, built: dict[str, Any]) -> None:
    done = python(aotbuild, project, "-m", "aotbuild.cli", "inspect", "proj/_aot", "--json")
    assert done.returncode == 0, done.stderr
    assert "npu:n1:1" in done.stdout
    assert "NPU 1" in done.stdout


@pytest.mark.parametrize(
    ("targets", "problem"),
    [
        ("[npu]", "'npu' needs to know which one; write npu: {model: n1}"),
        ("[npu: {}]", "the key 'model' is missing (The model, such as n1)"),
        ("[npu: {model: n0}]", "npu: n0 is too old for jax"),
        ("[npx]", "expected cpu, cuda, npu, tpu or portable, found 'npx' (did you mean 'npu'?)"),
    ],
)
def test_problems_are_said_in_its_words(
    aotbuild: Path, tmp_path: Path, targets: str, problem: str
) -> None:
    text = MANIFEST.replace("[cpu, npu: {model: n1}]", targets)
    root = write_project(tmp_path / "p", text, model=MODEL)
    done = python(aotbuild, root, "-m", "aotbuild.cli", "plan", "aot.yaml")
    assert done.returncode != 0
    assert problem in done.stderr
