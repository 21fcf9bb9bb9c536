"""`aotbuild lock`: standard locks beside the manifest, the same each time, and used by builds."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from support.cli import run
from support.fake_index import NEW, OLD, PYTHON, add_wheel
from support.fake_index import index as index  # a fixture
from support.projects import write_project

from aotbuild.toolchains.uv import running_python

HERE = running_python()
FIRST = "pylock.aot-jax0_10_2.toml"
SECOND = f"pylock.aot-jax0_12_0_1-py{HERE.replace('.', '_')}.toml"
MANIFEST = f"""\
version: 1
package: proj
targets: [{{tpu: {{topology: "v5e:2x2"}}}}]
toolchains:
  - {{jax: {OLD}}}
  - {{jax: {NEW}, python: "{HERE}"}}
functions:
  f: {{call: "proj.code:f"}}
"""
PYPROJECT = '[project]\nname = "proj"\nversion = "1"\ndependencies = ["einops>=1"]\n'


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = write_project(
        tmp_path / "here", MANIFEST, code="raise SystemExit('imported')\nf = None\n"
    )
    (root / "pyproject.toml").write_text(PYPROJECT)
    return root


def locks(project: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in sorted(project.glob("pylock*"))}


@pytest.mark.process
def test_one_lock_for_each_toolchain(index: Path, project: Path) -> None:
    result = run("lock", project / "aot.yaml")
    written = locks(project)
    assert list(written) == [FIRST, SECOND]
    assert re.fullmatch(
        rf"{re.escape(str(project / FIRST))}: written, jax {OLD}, \d+ packages",
        result.stdout.splitlines()[0],
    )
    for text, version in zip(written.values(), (OLD, NEW), strict=True):
        parsed = tomllib.loads(text)
        assert parsed["lock-version"] == "1.0"
        versions = {package["name"]: package["version"] for package in parsed["packages"]}
        assert (versions["jax"], versions["jaxlib"]) == (version, version)
        assert (versions["libtpu"], versions["einops"]) == (f"0.{version}", "13")
        assert text.startswith("# Written by `aotbuild lock`")
        assert "requirements.in" not in text
        assert "--" not in text


@pytest.mark.process
def test_versions_stay_until_an_upgrade(index: Path, project: Path) -> None:
    run("lock", project / "aot.yaml")
    add_wheel(index, "einops", "14")
    before = locks(project)
    run("lock", project / "aot.yaml")
    assert locks(project) == before
    run("lock", project / "aot.yaml", "--upgrade")
    assert 'version = "14"' in locks(project)[FIRST]


@pytest.mark.process
def test_files_of_this_machine_are_named(index: Path, project: Path) -> None:
    result = run("lock", project / "aot.yaml")
    assert f"{FIRST} names {index.as_uri()}/" in result.stderr
    assert "which is on this machine alone" in result.stderr


class TestCheck:
    def test_it_is_not_there(self, index: Path, project: Path) -> None:
        result = run("lock", project / "aot.yaml", "--check", code=3)
        assert f"{FIRST} is not there; run aotbuild lock" in result.stderr
        assert locks(project) == {}

    @pytest.mark.process
    def test_a_dependency_of_the_project_is_new(self, index: Path, project: Path) -> None:
        run("lock", project / "aot.yaml")
        (project / "pyproject.toml").write_text(PYPROJECT.replace('s>=1"', 's>=1", "numpy"'))
        result = run("lock", project / "aot.yaml", "--check", code=3)
        assert "expected numpy, found nothing of that name" in result.stderr
        assert run("plan", project / "aot.yaml", code=3).stderr == result.stderr


class TestRefused:
    def test_no_toolchain(self, index: Path, project: Path) -> None:
        text = re.sub(r"(?s)toolchains:.*functions:", "functions:", MANIFEST)
        (project / "aot.yaml").write_text(text)
        result = run("lock", project / "aot.yaml", code=3)
        assert "names no toolchain, so there is nothing to lock" in result.stderr

    @pytest.mark.parametrize("text", ["", "packages = 1"])
    def test_what_is_no_lock(self, index: Path, project: Path, text: str) -> None:
        (project / FIRST).write_text(text)
        result = run("plan", project / "aot.yaml", code=3)
        assert f"{project / FIRST}: not a lock of a toolchain" in result.stderr
        assert "run aotbuild lock" in result.stderr

    @pytest.mark.parametrize("data", [b"\xff", b"packages = 1"])
    @pytest.mark.process
    def test_what_is_no_lock_is_written_anew(self, index: Path, project: Path, data: bytes) -> None:
        (project / FIRST).write_bytes(data)
        run("lock", project / "aot.yaml")
        run("plan", project / "aot.yaml")

    @pytest.mark.process
    def test_a_lock_of_another_machine(self, index: Path, project: Path) -> None:
        run("lock", project / "aot.yaml")
        text = (project / FIRST).read_text()
        (project / FIRST).write_text(re.sub(f"{PYTHON}-{PYTHON}-", "cp38-cp38-", text))
        result = run("plan", project / "aot.yaml", code=3)
        assert f"{FIRST}: has no wheel of jaxlib for Python {HERE}" in result.stderr
