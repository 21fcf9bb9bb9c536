"""Toolchains: no plan runs code of packages, and nothing is installed that nobody can check."""

from __future__ import annotations

import tarfile
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path

import pytest
from faults.ended import assert_done, assert_refused
from faults.readers import no_hang
from faults.special_files import fifo, nowhere
from support.cli import invoke
from support.fake_index import NEW, OLD, make_index

from aotbuild.toolchains.project import project_requirements

pytestmark = pytest.mark.process

OTHER = OLD if metadata.version("jax") == NEW else NEW
LOCK = f"pylock.aot-jax{OTHER.replace('.', '_')}.toml"
PLAN_REFUSAL = ("building it would run its code, which no plan does", "of it, and name that")
# A package that has to be built to know what it is; its backend says that it ran.
BACKEND = """
import pathlib
import zipfile

pathlib.Path({ran!r}).touch()


def build_wheel(folder, settings=None, metadata=None):
    name = "own-1-py3-none-any.whl"
    with zipfile.ZipFile(pathlib.Path(folder, name), "w") as archive:
        info = "own-1.dist-info"
        archive.writestr(f"{{info}}/METADATA", "Metadata-Version: 2.1\\nName: own\\nVersion: 1\\n")
        archive.writestr(f"{{info}}/WHEEL", "Wheel-Version: 1.0\\nTag: py3-none-any\\n")
        archive.writestr(f"{{info}}/RECORD", "")
    return name
"""
PYPROJECT = """
[project]
name = "own"
{version}
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
"""


@pytest.fixture(scope="module", autouse=True)
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with pytest.MonkeyPatch.context() as patch:
        yield make_index(tmp_path_factory.mktemp("uv"), patch, (OLD, NEW))


@pytest.fixture
def ran(tmp_path: Path) -> Path:
    """The file that code of a package writes when it runs."""
    return tmp_path / "ran"


def write_source(
    folder: Path, ran: Path, version: str = 'dynamic = ["version", "dependencies"]'
) -> Path:
    folder.mkdir()
    (folder / "pyproject.toml").write_text(PYPROJECT.format(version=version))
    (folder / "backend.py").write_text(BACKEND.format(ran=str(ran)))
    return folder


def folder_source(place: Path, ran: Path) -> str:
    return f"own @ file://{write_source(place / 'own', ran)}"


def archive_source(place: Path, ran: Path) -> str:
    write_source(place / "own-1", ran)
    with tarfile.open(place / "own-1.tar.gz", "w:gz") as archive:
        archive.add(place / "own-1", "own-1")
    return f"own @ file://{place}/own-1.tar.gz"


def indexed_source(place: Path, ran: Path) -> str:
    archive_source(place, ran)
    (place / "uv.toml").write_text(f'find-links = ["{place}"]\nno-index = true\n')
    return "own"


SOURCES: tuple[Callable[[Path, Path], str], ...] = (*(folder_source, indexed_source),)


def project(folder: Path, packages: str = "", pyproject: str = "") -> Path:
    """Write a project whose one toolchain uv makes; return its manifest."""
    (folder / "p").mkdir()
    (folder / "p" / "__init__.py").write_text("def f(x):\n    return x\n")
    toolchain = f"{{jax: {OTHER}, packages: ['{packages}']}}" if packages else f"{{jax: {OTHER}}}"
    (folder / "aot.yaml").write_text(
        f"version: 1\npackage: p\ntoolchains: [{toolchain}]\n"
        "functions: {f: {call: 'p:f', args: [x: 'f32[4]']}}\n"
    )
    if pyproject:
        (folder / "pyproject.toml").write_text(f"[project]\nname = 'p'\n{pyproject}")
    return folder / "aot.yaml"


@pytest.mark.parametrize("command", ["plan", "lock"])
@pytest.mark.parametrize("make", SOURCES)
def test_a_package_that_would_have_to_be_built(
    tmp_path: Path,
    ran: Path,
    make: Callable[[Path, Path], str],
    command: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if make is indexed_source:
        monkeypatch.delenv("UV_NO_CONFIG")
    manifest = project(tmp_path, packages=make(tmp_path, ran))
    assert_refused(invoke(command, manifest), *PLAN_REFUSAL, codes=[3])
    assert not ran.exists()
    assert not (tmp_path / LOCK).exists()


def test_a_project_whose_metadata_is_in_a_file_is_not_built(tmp_path: Path, ran: Path) -> None:
    write_source(tmp_path / "own", ran, 'version = "1"')
    manifest = project(tmp_path, packages=f"own @ file://{tmp_path}/own")
    assert_done(invoke("lock", manifest))
    assert_done(invoke("plan", manifest))
    assert not ran.exists()


# --- the project's own pyproject.toml ------------------------------------------------------------

HOOK = "[tool.hatch.metadata.hooks.custom]\n"
CODE = '[tool.hatch.version]\nsource = "code"\npath = "hatch_build.py"\n'
PLUGIN = '[tool.hatch.metadata.hooks.aotbuild]\ndependencies = ["einops"]\n'
PROJECTS = {
    "a hook sets the dependencies": 'version = "1"\ndynamic = ["dependencies"]\n' + HOOK,
    "a hook and a version": 'dynamic = ["dependencies", "version"]\n' + HOOK + CODE,
}
HARMLESS = {
    "a hook sets something else": 'version = "1"\ndynamic = ["license"]\n' + HOOK,
    "a hook sets nothing": 'version = "1"\n' + HOOK,
    "a version of code": 'dynamic = ["version"]\n' + CODE,
    "a version of code, and aotbuild's hook": 'dynamic = ["dependencies", "version"]\n'
    + CODE
    + PLUGIN,
}


def with_hook(folder: Path, ran: Path, pyproject: str) -> Path:
    (folder / "hatch_build.py").write_text(
        f"import pathlib; pathlib.Path({str(ran)!r}).touch()\n"
        "__version__ = '1'\n"
        "from hatchling.metadata.plugin.interface import MetadataHookInterface\n"
        "class Hook(MetadataHookInterface):\n"
        "    def update(self, metadata):\n"
        "        metadata['dependencies'] = ['einops']\n"
    )
    return project(folder, pyproject=pyproject)


@pytest.mark.parametrize("name", PROJECTS)
def test_code_of_the_project_that_says_its_dependencies(
    tmp_path: Path, ran: Path, name: str
) -> None:
    manifest = with_hook(tmp_path, ran, PROJECTS[name])
    assert_refused(invoke("plan", manifest), "runs code of the project", codes=[3])
    assert not ran.exists()


@pytest.mark.parametrize("name", HARMLESS)
def test_code_of_the_project_that_says_nothing_of_them(
    tmp_path: Path, ran: Path, name: str
) -> None:
    manifest = with_hook(tmp_path, ran, HARMLESS[name])
    assert_done(invoke("plan", manifest))
    assert not ran.exists()


def test_a_build_runs_it(tmp_path: Path, ran: Path) -> None:
    with_hook(tmp_path, ran, PROJECTS["a hook sets the dependencies"])
    assert project_requirements(tmp_path) == ("einops",)
    assert ran.exists()


# --- what stands in the place of a file --------------------------------------------------------


@pytest.mark.parametrize("make", [fifo, nowhere], ids=lambda make: make.__name__)
@pytest.mark.parametrize("words", [("plan",), ("lock",), ("lock", "--check")], ids=" ".join)
def test_in_the_place_of_a_lock(
    words: tuple[str, ...], make: Callable[[Path], None], tmp_path: Path
) -> None:
    """It is refused: without a lock, other versions would be taken in silence."""
    manifest = project(tmp_path)
    make(tmp_path / LOCK)
    with no_hang():
        assert_refused(invoke(*words, manifest), LOCK, codes=[6])
