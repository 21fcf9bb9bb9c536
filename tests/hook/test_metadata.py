"""The metadata hook: what a wheel requires, as installers ask for it before there is a wheel."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from email.parser import Parser
from importlib import metadata
from pathlib import Path
from textwrap import dedent
from zipfile import ZipFile

import pytest
from support.cli import run
from support.projects import PROJECT, write_project

from aotbuild.toolchains.project import project_requirements
from hatch_aotbuild import backend

JAX = metadata.version("jax")
JAXLIB = metadata.version("jaxlib")
MANIFEST = """
version: 1
package: proj
functions:
  f: {call: "proj.model:f", args: [x: "f32[4]"]}
"""
DYNAMIC = 'dynamic = ["dependencies"]\n'
HOOK = "[tool.hatch.metadata.hooks.aotbuild]\n"
BUILD_HOOK = "[tool.hatch.build.targets.wheel.hooks.aotbuild]\n"
OWN = """dependencies = ["einops>=0.8", "numpy; sys_platform == 'linux'"]\n"""
WITHOUT = "import sys; sys.modules['pydantic'] = None; "


def project(root: Path, monkeypatch: pytest.MonkeyPatch, text: str, more: str = "") -> Path:
    """Write a project and go there, as the process of a build backend does."""
    write_project(root / "project", MANIFEST + more, model="raise SystemExit('not imported')")
    (root / "project" / "pyproject.toml").write_text(PROJECT + text)
    monkeypatch.chdir(root / "project")
    return root / "project"


def required(place: Path) -> list[str]:
    folder = backend.prepare_metadata_for_build_wheel(str(place))
    text = (place / folder / "METADATA").read_text()
    return Parser().parsestr(text).get_all("Requires-Dist") or []


def refused() -> str:
    with pytest.raises(SystemExit) as caught:
        backend.prepare_metadata_for_build_wheel(".")
    return str(caught.value)


def test_own_dependencies_and_what_executables_require(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project(tmp_path, monkeypatch, DYNAMIC + HOOK + OWN + BUILD_HOOK)
    assert required(tmp_path) == [
        "aotbuild<0.2,>=0.1",
        "einops>=0.8",
        f"jax=={JAX}",
        f"jaxlib=={JAXLIB}",
        "numpy; sys_platform == 'linux'",
    ]


def test_the_manifest_decides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = project(tmp_path, monkeypatch, DYNAMIC + HOOK + BUILD_HOOK + 'manifest = "b.yaml"\n')
    (root / "aot.yaml").rename(root / "b.yaml")
    with (root / "b.yaml").open("a") as file:
        file.write("runtime: jaxlib\ntargets: [portable]\n")
    found = ["aotbuild<0.2,>=0.1", "flatbuffers>=24.3", f"jaxlib>={JAXLIB}"]
    assert required(tmp_path) == found


STATIC = f'dependencies = ["aotbuild", "jax=={JAX}", "jaxlib=={JAXLIB}"]\n'


@pytest.mark.process
@pytest.mark.parametrize("more", ["", "targets: [cpu, {portable: {platforms: [cpu]}}]\n"])
def test_static_requirements_that_pin_what_compiles(
    more: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pin also serves the portable form, which any newer jax could read elsewhere."""
    stated = STATIC.replace("]", ', "flatbuffers>=24.3"]')
    root = project(tmp_path, monkeypatch, stated + BUILD_HOOK, more)
    (root / "proj" / "model.py").write_text("def f(x):\n    return x\n")
    assert f"jax=={JAX}" in backend.get_requires_for_build_wheel()
    backend.build_wheel(str(tmp_path))
    (wheel,) = tmp_path.glob("*.whl")
    assert "proj/_aot/index" in ZipFile(wheel).namelist()


def test_what_only_the_build_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model of flax, whose wheel needs neither flax nor jax where it runs."""
    text = f'dependencies = ["aotbuild", "jaxlib=={JAXLIB}"]\n{BUILD_HOOK}dependencies = ["flax"]\n'
    root = project(tmp_path, monkeypatch, text, "runtime: jaxlib\n")
    assert required(tmp_path) == ["aotbuild", f"jaxlib=={JAXLIB}"]
    assert {"flax", f"jax=={JAXLIB}"} <= {*backend.get_requires_for_build_wheel()}
    assert "flax" in project_requirements(root)  # so that an environment of uv has it, too


@pytest.mark.process
def test_what_brings_jax_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    own = [f"jax=={JAX}; extra == 'x'", f"jax=={JAX}", "flax", "aotbuild[jax]", "numpy"]
    text = f'dependencies = {[*own, f"jaxlib=={JAXLIB}"]}\n{BUILD_HOOK}dependencies = ["flax"]\n'
    root = project(tmp_path, monkeypatch, text, "runtime: jaxlib\n")
    (root / "proj" / "model.py").write_text("def f(x):\n    return x\n")
    backend.build_wheel(str(tmp_path))
    printed = "".join(capsys.readouterr())
    says = f"requires jax, by its dependencies aotbuild[jax], flax, jax=={JAX}: pin jaxlib alone"
    for each in (printed, run("plan").stdout, run("build").stdout):
        assert says in " ".join(each.split())


@pytest.mark.parametrize(
    ("text", "lacks"),
    [
        (STATIC.replace(f"jaxlib=={JAXLIB}", "jaxlib>=0.10"), [f"jaxlib=={JAXLIB}"]),
        (STATIC.replace('"aotbuild"', '"aotbuild<0.1"'), ["aotbuild>=0.1,<0.2"]),
        ("", ["aotbuild>=0.1,<0.2", f"jaxlib=={JAXLIB}", f"jax=={JAX}"]),
    ],
)
@pytest.mark.parametrize("target", ["cpu", "portable"])
def test_what_the_metadata_lacks(
    text: str,
    lacks: list[str],
    target: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    root = project(tmp_path, monkeypatch, text + BUILD_HOOK)
    with (root / "aot.yaml").open("a") as file:
        file.write(f"targets: [cpu, {target}]\n" if target != "cpu" else "")
    with pytest.raises(SystemExit):
        backend.build_wheel(str(tmp_path))
    message = "".join(capsys.readouterr())
    if target == "cpu":
        assert f"  expected {', '.join(lacks)}\n" in message
        assert f'    "{lacks[0]}",\n' in message
    shown = message.partition("Add to pyproject.toml:\n\n")[2].partition("\n\n")[0]
    added = tomllib.loads(dedent(shown))["project"]["dependencies"]
    assert {name.split(";")[0] for name in lacks} <= {each.split(";")[0] for each in added}
    assert not list(tmp_path.glob("*.whl"))


@pytest.mark.parametrize("own", ["", 'dependencies = ["jax>=0.10", "jaxlib==0.10.*"]\n'])
def test_nothing_says_which_jax_compiles(
    own: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    project(tmp_path, monkeypatch, DYNAMIC + HOOK + own + BUILD_HOOK)
    with pytest.raises(SystemExit):
        backend.build_wheel(str(tmp_path))
    assert f'  expected an exact version, such as "jax=={JAX}", which' in "".join(
        capsys.readouterr()
    )
    assert not list(tmp_path.glob("*.whl"))


def test_the_build_hook_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project(tmp_path, monkeypatch, DYNAMIC + HOOK)
    assert "expected a table [tool.hatch.build.targets.wheel.hooks.aotbuild]" in refused()


def test_mistakes_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = project(tmp_path, monkeypatch, DYNAMIC + HOOK + "depends = []\n" + BUILD_HOOK)
    table = "[tool.hatch.metadata.hooks.aotbuild]"
    assert refused() == f"aotbuild: {table}: unknown key 'depends'; known: dependencies"
    (root / "pyproject.toml").write_text(PROJECT + DYNAMIC + HOOK + BUILD_HOOK)
    (root / "aot.yaml").write_text("version: 1\n")
    assert "aot.yaml:1:1: the key 'functions' is missing" in refused()


@pytest.mark.process
@pytest.mark.parametrize("call", ["get_requires_for_build_wheel()", "build_wheel('.')"])
def test_the_extra_is_missing(call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project(tmp_path, monkeypatch, DYNAMIC + HOOK + BUILD_HOOK)
    code = f"{WITHOUT}from hatch_aotbuild import backend; backend.{call}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.startswith("aotbuild: a build needs pydantic, which is not installed\n")
    assert '"aotbuild[build]"] under [build-system]' in done.stderr


@pytest.mark.process
def test_projects_that_do_not_use_the_hooks_need_no_extra(tmp_path: Path) -> None:
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "__init__.py").touch()
    (tmp_path / "pyproject.toml").write_text(
        '[project]\nname = "pkg"\nversion = "1"\n[tool.hatch.build.targets.wheel.hooks.custom]\n'
    )
    (tmp_path / "hatch_build.py").write_text(
        "from hatchling.builders.hooks.plugin.interface import BuildHookInterface\n"
        "class Hook(BuildHookInterface):\n    pass\n"
    )
    code = f"{WITHOUT}from hatchling import build; build.build_wheel('.')"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=tmp_path)
    assert list(tmp_path.glob("*.whl"))


def test_variables_of_hatchling_are_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN", "s3cr3t")
    (tmp_path / "pyproject.toml").write_text(
        '[project]\nname = "proj"\nversion = "1"\n'
        'dependencies = ["foo @ https://x.org/{env:TOKEN}/f.whl"]\n'
        "[tool.hatch.metadata]\nallow-direct-references = true\n"
    )
    (found,) = project_requirements(tmp_path)
    assert found.endswith("https://x.org/s3cr3t/f.whl")
