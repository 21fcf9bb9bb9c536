"""`local-version = "jax"`: one wheel per jax in one index."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import zipfile
from email.parser import Parser
from importlib import metadata
from pathlib import Path

import pytest
from support.installs import build_wheel, pip
from support.projects import write_project

from aotbuild.toolchains.uv import uv_program
from hatch_aotbuild import backend
from hatch_aotbuild.version import AotBuildVersionSource, with_jax

JAX = metadata.version("jax")
MANIFEST = """
version: 1
package: proj
functions:
  f: {call: "proj.model:f", args: [x: "f32[4]"]}
"""
HEAD = """
[build-system]
requires = ["hatchling", "aotbuild[build]"]
build-backend = "hatch_aotbuild.backend"

[project]
name = "proj"
dynamic = ["dependencies", "version"]

[tool.hatch.metadata.hooks.aotbuild]

[tool.hatch.build.targets.wheel.hooks.aotbuild]

[tool.hatch.version]
source = "aotbuild"
"""
LOCAL = 'local-version = "jax"\n'


def project(root: Path, table: str, more: str = "") -> Path:
    write_project(root / "project", MANIFEST + more, model="def f(x):\n    return x * 2\n")
    (root / "project" / "proj" / "__init__.py").write_text('__version__ = "1.2"\n')
    (root / "project" / "pyproject.toml").write_text(HEAD + table)
    return root / "project"


def stated(root: Path, out: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(root)
    folder = backend.prepare_metadata_for_build_wheel(str(out))
    return str(Parser().parsestr((out / folder / "METADATA").read_text())["Version"])


@pytest.mark.parametrize("table", ['version = "1.2"\n', 'path = "proj/__init__.py"\n'])
def test_the_running_jax(table: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = project(tmp_path, LOCAL + table)
    assert stated(root, tmp_path, monkeypatch) == f"1.2+jax{JAX}"


def test_another_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = project(tmp_path, f'{LOCAL}base = "env"\nvariable = "PROJ_VERSION"\n')
    monkeypatch.setenv("PROJ_VERSION", "3+cu13")
    assert stated(root, tmp_path, monkeypatch) == f"3+cu13.jax{JAX}"


def test_the_toolchain_of_the_manifest_names_it_in_the_source_distribution_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    toolchain = f"toolchains: [{{jax: '{JAX}'}}]\n"
    root = project(tmp_path, f'{LOCAL}version = "1.2"\n', toolchain)
    monkeypatch.chdir(root)
    assert backend.build_sdist(str(tmp_path)) == f"proj-1.2+jax{JAX}.tar.gz"


def test_a_new_version_is_written_without_the_local_part(tmp_path: Path) -> None:
    """As `hatch version` does."""
    root = project(tmp_path, "")
    config = {"local-version": "jax", "path": "proj/__init__.py"}
    source = AotBuildVersionSource(str(root), config)
    source.set_version(f"1.3+jax{JAX}", source.get_version_data())
    assert (root / "proj" / "__init__.py").read_text() == '__version__ = "1.3"\n'
    table = AotBuildVersionSource(str(root), {"local-version": "jax", "version": "1.2"})
    with pytest.raises(SystemExit, match=r"\[tool.hatch.version\]: the version stands there"):
        table.set_version("1.3", table.get_version_data())


@pytest.mark.parametrize(
    ("version", "jax", "expected"),
    [
        ("1.0", "0.12.0.1", "1.0+jax0.12.0.1"),
        ("1.0", "0.13.0.dev20270101+g12ab", "1.0+jax0.13.0.dev20270101.g12ab"),
        ("1.0", None, "1.0"),
    ],
)
def test_how_it_is_written(version: str, jax: str | None, expected: str) -> None:
    assert with_jax(version, jax) == expected


@pytest.mark.parametrize(
    ("table", "more", "message"),
    [
        ('version = "1"\n', "", 'local-version: expected "jax", found None'),
        (LOCAL + 'base = "nothing"\n', "", "build-system.requires"),
        (LOCAL + 'base = "aotbuild"\n', "", "found 'aotbuild'"),
        (
            f'{LOCAL}version = "1"\n',
            'toolchains: [{jax: "0.10.2"}, {jax: "0.10.1"}]\n',
            'local-version = "jax" expects one, found jax 0.10.2, 0.10.1',
        ),
        (f'{LOCAL}version = "1"\n', "targets: [nothing]\n", "aot.yaml:"),
    ],
)
def test_mistakes(
    table: str, more: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = project(tmp_path, table, more)
    with pytest.raises(SystemExit) as caught:
        stated(root, tmp_path, monkeypatch)
    assert str(caught.value).startswith("aotbuild: ")
    assert message in str(caught.value)


@pytest.mark.process
def test_a_source_distribution_that_was_made_without_jax(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Installers demand the version that it states."""
    root = project(tmp_path, f'{LOCAL}version = "1.2"\n')
    (root / "PKG-INFO").write_text(
        "Metadata-Version: 2.4\nName: proj\nVersion: 1.2\nDynamic: Requires-Dist\n"
    )
    monkeypatch.chdir(root)
    assert backend.build_wheel(str(tmp_path)).startswith("proj-1.2-py3")
    assert f"has the version of its source distribution, without +jax{JAX}" in "".join(
        capsys.readouterr()
    )


@pytest.mark.process
def test_a_static_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    root = project(tmp_path, f'{LOCAL}version = "1.2"\n')
    file = root / "pyproject.toml"
    static = 'version = "1.1"\ndynamic = ["dependencies"]'
    file.write_text(file.read_text().replace('dynamic = ["dependencies", "version"]', static))
    monkeypatch.chdir(root)
    assert backend.build_wheel(str(tmp_path)).startswith("proj-1.1-py3")
    shown = "".join(capsys.readouterr())
    assert "has the version of [project], so its jax is not added" in shown
    assert "aotbuild: 1 unit, jax" in shown


@pytest.mark.wheel
@pytest.mark.any_jax
class TestInstallers:
    """A real wheel for this jax beside one that says that it is for an older one."""

    @pytest.fixture
    def folder(self, links: Path, tmp_path: Path) -> Path:
        root = project(tmp_path, LOCAL + 'path = "proj/__init__.py"\n')
        dist = tmp_path / "dist"
        wheel = build_wheel(root, dist)
        assert wheel.name.startswith(f"proj-1.2+jax{JAX}-py3-none-")
        (dist / wheel.name.replace(JAX, "0.10.1")).write_bytes(_for(wheel, "0.10.1"))
        (own,) = links.glob("aotbuild-*.whl")
        (dist / own.name).symlink_to(own)
        return dist

    @pytest.mark.parametrize(
        ("asked", "jax"),
        [
            ("proj", JAX),
            ("proj==1.2", JAX),
            ("proj==1.2+jax0.10.1", "0.10.1"),
            ("proj==1.2 jaxlib==0.10.1", "0.10.1"),
        ],
    )
    def test_what_they_take(self, asked: str, jax: str, folder: Path) -> None:
        expected = {"proj": f"1.2+jax{jax}", "jaxlib": jax}
        assert _by_pip(asked, folder) == expected
        assert _by_uv(asked, folder) == expected


def _for(wheel: Path, jax: str) -> bytes:
    """Return the bytes of a wheel that states another jax, as far as installers read."""
    out = io.BytesIO()
    with zipfile.ZipFile(wheel) as given, zipfile.ZipFile(out, "w") as made:
        for name in given.namelist():
            data = given.read(name)
            if ".dist-info/" in name:
                data = data.replace(JAX.encode(), jax.encode())
            made.writestr(name.replace(JAX, jax), data)
    return out.getvalue()


def _by_pip(asked: str, links: Path) -> dict[str, str]:
    options = ("--quiet", "--dry-run", "--ignore-installed", "--report", "-")
    report = json.loads(pip(sys.executable, "install", *options, *asked.split(), links=links))
    found = [item["metadata"] for item in report["install"]]
    return {each["name"]: each["version"] for each in found if each["name"] in ("proj", "jaxlib")}


def _by_uv(asked: str, links: Path) -> dict[str, str]:
    options = ("--quiet", "--no-header", "--no-annotate", "--find-links", ".")
    options = (*options, "--python", sys.executable)
    text = asked.replace(" ", "\n")
    command = [uv_program(), "pip", "compile", *options, "-"]
    done = subprocess.run(command, cwd=links, input=text, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    lines = [line.split("==") for line in done.stdout.split()]
    return {name: version for name, version in lines if name in ("proj", "jaxlib")}
