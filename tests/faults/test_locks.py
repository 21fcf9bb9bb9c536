"""Toolchains: no plan runs code of packages, and nothing is installed that nobody can check."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path

import pytest
from faults.ended import assert_done, assert_refused
from faults.readers import no_hang
from faults.special_files import fifo, nowhere
from support.cli import invoke
from support.fake_index import NEW, OLD, make_index

pytestmark = pytest.mark.process

OTHER = OLD if metadata.version("jax") == NEW else NEW
LOCK = f"pylock.aot-jax{OTHER.replace('.', '_')}.toml"
PLAN_REFUSAL = ("building it would run its code, which no plan does", "of it, and name that")
# A package that has to be built to know what it is; its backend says that it ran.
BACKEND = "import pathlib; pathlib.Path({ran!r}).touch()"
PYPROJECT = """
[project]
name = "own"
dynamic = ["version", "dependencies"]
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


def write_source(folder: Path, ran: Path) -> str:
    """Write a package that has to be built to know what it is; return its requirement."""
    folder.mkdir()
    (folder / "pyproject.toml").write_text(PYPROJECT)
    (folder / "backend.py").write_text(BACKEND.format(ran=str(ran)))
    return f"own @ file://{folder}"


def project(folder: Path, pyproject: str = "") -> Path:
    """Write a project whose one toolchain uv makes; return its manifest."""
    (folder / "p").mkdir()
    (folder / "p" / "__init__.py").write_text("def f(x):\n    return x\n")
    (folder / "aot.yaml").write_text(
        f"version: 1\npackage: p\ntoolchains: [{{jax: {OTHER}}}]\n"
        "functions: {f: {call: 'p:f', args: [x: 'f32[4]']}}\n"
    )
    if pyproject:
        (folder / "pyproject.toml").write_text(f"[project]\nname = 'p'\n{pyproject}")
    return folder / "aot.yaml"


@pytest.mark.parametrize("command", ["plan", "lock"])
def test_a_package_that_would_have_to_be_built(tmp_path: Path, ran: Path, command: str) -> None:
    own = write_source(tmp_path / "own", ran)
    allowed = "[tool.hatch.metadata]\nallow-direct-references = true\n"
    manifest = project(tmp_path, f"version = '1'\ndependencies = ['{own}']\n{allowed}")
    assert_refused(invoke(command, manifest), *PLAN_REFUSAL, codes=[3])
    assert not ran.exists()
    assert not (tmp_path / LOCK).exists()


# --- the project's own pyproject.toml ------------------------------------------------------------

HOOK = "[tool.hatch.metadata.hooks.custom]\n"
CODE = '[tool.hatch.version]\nsource = "code"\npath = "hatch_build.py"\n'
PLUGIN = '[tool.hatch.metadata.hooks.aotbuild]\ndependencies = ["einops"]\n'
SETS_DEPENDENCIES = 'version = "1"\ndynamic = ["dependencies"]\n' + HOOK
HARMLESS = {
    "a hook sets something else": 'version = "1"\ndynamic = ["license"]\n' + HOOK,
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


def test_code_of_the_project_that_says_its_dependencies(tmp_path: Path, ran: Path) -> None:
    manifest = with_hook(tmp_path, ran, SETS_DEPENDENCIES)
    assert_refused(invoke("plan", manifest), "runs code of the project", codes=[3])
    assert not ran.exists()


@pytest.mark.parametrize("name", HARMLESS)
def test_code_of_the_project_that_says_nothing_of_them(
    tmp_path: Path, ran: Path, name: str
) -> None:
    manifest = with_hook(tmp_path, ran, HARMLESS[name])
    assert_done(invoke("plan", manifest))
    assert not ran.exists()


# --- what stands in the place of a file --------------------------------------------------------


@pytest.mark.parametrize("make", [fifo, nowhere], ids=lambda make: make.__name__)
@pytest.mark.parametrize("words", [("plan",), ("lock",)], ids=" ".join)
def test_in_the_place_of_a_lock(
    words: tuple[str, ...], make: Callable[[Path], None], tmp_path: Path
) -> None:
    """It is refused: without a lock, other versions would be taken in silence."""
    manifest = project(tmp_path)
    make(tmp_path / LOCK)
    with no_hang():
        assert_refused(invoke(*words, manifest), LOCK, codes=[6])
