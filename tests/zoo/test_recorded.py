"""Programs of public libraries, recorded as they run: the manifest has all of their functions."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.processes import ROOT, clean_environment
from support.zoo import PROGRAMS, VERSIONS, ZOO, Program

pytestmark = pytest.mark.zoo

# A module in two modes, an `eqx.Module` and its state, and optimizers without a name.
NAMES = ("flax_nnx_vision", "equinox_rnn", "optax_chains")


def run(version: str, project: Path, *arguments: object) -> str:
    """Run aotbuild in the environment of a zoo; return what it printed."""
    command = [ROOT / f".venv-zoo-{version}" / "bin" / "aotbuild", *arguments]
    environment = clean_environment(PYTHONPATH=str(project))
    done = subprocess.run(
        [*map(str, command)],
        capture_output=True,
        text=True,
        env=environment,
        cwd=project,
        timeout=1800,
    )
    assert done.returncode == 0, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", NAMES)
def test_the_manifest_of_a_recording_has_all_functions(
    name: str, version: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if version not in request.config.getoption("--zoo"):
        pytest.skip("needs --zoo")
    program, project = Program(PROGRAMS / name), tmp_path / name
    shutil.copytree(program.folder, project, ignore=shutil.ignore_patterns("aot.yaml"))
    python = ROOT / f".venv-zoo-{version}" / "bin" / "python"
    driver = (python, ZOO / "call.py", "jit", program.folder, tmp_path)
    run(version, project, "record", "--", *driver)
    calls = {options["call"] for options in program.manifest["functions"].values()}
    found: dict[str, Any] = yaml.safe_load((project / "aot.yaml").read_text())
    assert found["package"] == program.manifest["package"]
    assert {options["call"] for options in found["functions"].values()} == calls
    if "TODO" in (project / "aot.yaml").read_text():  # trees that no global of a module is
        return
    plan = json.loads(run(version, project, "plan", "--json"))
    assert {unit["function"] for unit in plan["units"]} == {*found["functions"]}
