"""Toolchains: no plan runs code of packages, and nothing is installed that nobody can check."""

from __future__ import annotations

import subprocess
import tarfile
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from faults.ended import NEVER, assert_done, assert_refused
from faults.readers import no_hang
from faults.special_files import nowhere, special
from support.cli import Result, invoke
from support.fake_index import NEW, OLD, make_index
from support.processes import clean_environment

from aotbuild.errors import PlanError
from aotbuild.manifest import load_manifest
from aotbuild.toolchains.environments import find_environment, make_environments
from aotbuild.toolchains.project import project_requirements

pytestmark = pytest.mark.process

OTHER = OLD if metadata.version("jax") == NEW else NEW
LOCK = f"pylock.aot-jax{OTHER.replace('.', '_')}.toml"
PLAN_REFUSAL = ("building it would run its code, which no plan does", "lock --build-sources")
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


def setup_source(place: Path, ran: Path) -> str:
    (place / "own").mkdir()
    (place / "own" / "setup.py").write_text(f"open({str(ran)!r}, 'w')\n")
    return f"own @ file://{place}/own"


def archive_source(place: Path, ran: Path) -> str:
    write_source(place / "own-1", ran)
    with tarfile.open(place / "own-1.tar.gz", "w:gz") as archive:
        archive.add(place / "own-1", "own-1")
    return f"own @ file://{place}/own-1.tar.gz"


def indexed_source(place: Path, ran: Path) -> str:
    archive_source(place, ran)
    (place / "uv.toml").write_text(f'find-links = ["{place}"]\nno-index = true\n')
    return "own"


def git_source(place: Path, ran: Path) -> str:
    folder = write_source(place / "own", ran)
    me = ("-c", "user.name=me", "-c", "user.email=me@example.com")
    for words in (("init", "-q"), ("add", "-A"), (*me, "commit", "-q", "-m", "own")):
        subprocess.run(["git", *words], cwd=folder, env=clean_environment(), check=True)
    return f"own @ git+file://{folder}"


SOURCES: tuple[Callable[[Path, Path], str], ...] = (
    *(folder_source, setup_source, archive_source, indexed_source, git_source),
)


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


@pytest.mark.cause(6)
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
    assert_refused(invoke(command, manifest), *PLAN_REFUSAL, codes=[4])
    assert not ran.exists()
    assert not (tmp_path / LOCK).exists()


@pytest.mark.cause(6)
@pytest.mark.parametrize("command", ["plan", "lock"])
def test_a_dependency_of_the_project(tmp_path: Path, ran: Path, command: str) -> None:
    needs = f'version = "1"\ndependencies = ["{folder_source(tmp_path, ran)}"]\n'
    needs += "[tool.hatch.metadata]\nallow-direct-references = true\n"
    assert_refused(invoke(command, project(tmp_path, pyproject=needs)), *PLAN_REFUSAL, codes=[4])
    assert not ran.exists()


@pytest.mark.cause(6)
def test_a_project_whose_metadata_is_in_a_file_is_not_built(tmp_path: Path, ran: Path) -> None:
    write_source(tmp_path / "own", ran, 'version = "1"')
    manifest = project(tmp_path, packages=f"own @ file://{tmp_path}/own")
    assert_done(invoke("lock", manifest))
    assert_done(invoke("plan", manifest))
    assert not ran.exists()


@pytest.mark.cause(6)
def test_a_lock_may_have_sources_and_only_builds_run_them(
    tmp_path: Path, ran: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest = project(tmp_path, packages=folder_source(tmp_path, ran))
    assert_done(invoke("lock", manifest, "--build-sources"))
    assert ran.exists()
    ran.unlink()
    for words in (["plan", manifest], ["lock", manifest, "--check"]):
        assert_done(invoke(*words))
        assert not ran.exists()
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "uv"))  # it has what was built
    make_environments(find_environment(load_manifest(manifest)).toolchains)
    assert ran.exists()


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


@pytest.mark.cause(6)
@pytest.mark.parametrize("command", ["plan", "lock"])
@pytest.mark.parametrize("name", PROJECTS)
def test_code_of_the_project_that_says_its_dependencies(
    tmp_path: Path, ran: Path, name: str, command: str
) -> None:
    manifest = with_hook(tmp_path, ran, PROJECTS[name])
    assert_refused(invoke(command, manifest), "runs code of the project", codes=[4])
    assert not ran.exists()


@pytest.mark.cause(6)
@pytest.mark.parametrize("name", HARMLESS)
def test_code_of_the_project_that_says_nothing_of_them(
    tmp_path: Path, ran: Path, name: str
) -> None:
    manifest = with_hook(tmp_path, ran, HARMLESS[name])
    assert_done(invoke("plan", manifest))
    assert not ran.exists()


@pytest.mark.cause(6)
def test_a_build_runs_it(tmp_path: Path, ran: Path) -> None:
    with_hook(tmp_path, ran, PROJECTS["a hook sets the dependencies"])
    assert project_requirements(tmp_path) == ("einops",)
    assert ran.exists()


# --- what a lock may name ------------------------------------------------------------------------

JAX = f"jax-{OTHER}-py3-none-any.whl"
DIGEST = "ab" * 32


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The text of a lock that uv made."""
    manifest = project(tmp_path_factory.mktemp("good"))
    assert_done(invoke("lock", manifest))
    return manifest.with_name(LOCK).read_text()


def other_wheel(entry: str) -> Callable[[str], str]:
    """Return what has another entry for the wheel of jax."""

    def forge(text: str) -> str:
        head, name, tail = text.partition('name = "jax"')
        start, _, rest = tail.partition("wheels = [")
        after = rest.partition("\n")[2]
        return f"{head}{name}{start}wheels = [{entry}]\n{after}"

    return forge


def url(address: str, hashes: str = f'{{ sha256 = "{DIGEST}" }}') -> Callable[[str], str]:
    return other_wheel(f'{{ url = "{address}/{JAX}", hashes = {hashes} }}')


def one_more(*lines: str) -> Callable[[str], str]:
    """Return what has one more package."""
    return lambda text: "\n".join((text, "[[packages]]", 'name = "own"', 'version = "1"', *lines))


COMMIT = "12" * 20
NO_HASH, NO_SCHEME = "expected a sha256 among its hashes", "expected https or file"
FORGED: dict[str, tuple[Callable[[str], str], str]] = {
    "no hashes": (other_wheel(f'{{ url = "https://x.org/{JAX}" }}'), NO_HASH),
    "an empty table of hashes": (url("https://x.org", "{}"), NO_HASH),
    "md5 alone": (url("https://x.org", f'{{ md5 = "{"ab" * 16}" }}'), NO_HASH),
    "sha1 alone": (url("https://x.org", f'{{ sha1 = "{"ab" * 20}" }}'), NO_HASH),
    "an empty sha256": (url("https://x.org", '{ sha256 = "" }'), NO_HASH),
    "half a sha256": (url("https://x.org", f'{{ sha256 = "{DIGEST[:32]}" }}'), NO_HASH),
    "a sha256 that is text": (url("https://x.org", f'{{ sha256 = "{"xy" * 32}" }}'), NO_HASH),
    "a sha256 and more": (url("https://x.org", f'{{ sha256 = "{DIGEST} " }}'), NO_HASH),
    "a sha256 that is a number": (url("https://x.org", "{ sha256 = 1 }"), NO_HASH),
    "http": (url("http://x.org"), NO_SCHEME),
    "HTTP in capitals": (url("HTTP://x.org"), NO_SCHEME),
    "http on this machine": (url("http://127.0.0.1:8000"), NO_SCHEME),
    "ftp": (url("ftp://x.org"), NO_SCHEME),
    "no scheme": (url("//x.org"), NO_SCHEME),
    "a scheme of nobody's": (url("https+x://x.org"), NO_SCHEME),
    "http beside a path": (
        other_wheel(f'{{ url = "http://x.org/{JAX}", path = "{JAX}", hashes = {{}} }}'),
        NO_SCHEME,
    ),
    "a path without a hash": (other_wheel(f'{{ path = "{JAX}" }}'), NO_HASH),
    "neither a path nor a url": (other_wheel(f'{{ hashes = {{ md5 = "{DIGEST}" }} }}'), NO_HASH),
    "an sdist without a hash": (one_more('sdist = { url = "https://x.org/o.tar.gz" }'), NO_HASH),
    "an archive over http": (
        one_more(f'archive = {{ url = "http://x.org/o.zip", hashes = {{ sha256 = "{DIGEST}" }} }}'),
        NO_SCHEME,
    ),
    "what is for another platform": (
        one_more("marker = \"sys_platform == 'win32'\"", 'wheels = [{ path = "o.whl" }]'),
        NO_HASH,
    ),
    "a package without files": (one_more(), "own: names no file"),
    "a branch of git": (
        one_more('vcs = { type = "git", url = "https://x.org/o", commit-id = "main" }'),
        "own: expected the id of a commit, found 'main'",
    ),
    "git without a commit": (
        one_more('vcs = { type = "git", url = "https://x.org/o" }'),
        "own: expected the id of a commit, found None",
    ),
    "git over http": (
        one_more(f'vcs = {{ type = "git", url = "http://x.org/o", commit-id = "{COMMIT}" }}'),
        "expected https, ssh or file",
    ),
    "git's own protocol": (
        one_more(f'vcs = {{ type = "git", url = "git://x.org/o", commit-id = "{COMMIT}" }}'),
        "expected https, ssh or file",
    ),
    "wheels that are text": (one_more('wheels = "o.whl"'), "not a lock of a toolchain"),
    "hashes that are a list": (url("https://x.org", "[]"), "not a lock of a toolchain"),
    "a url that is a list": (
        other_wheel("{ url = [1], hashes = {} }"),
        NO_SCHEME,
    ),
    "a url that is no url": (url("https://[x"), "not a lock of a toolchain"),
}


def checked(folder: Path, text: str) -> Result:
    """Return how `lock --check` ends; a build, which would install it, agrees."""
    manifest = project(folder)
    manifest.with_name(LOCK).write_text(text)
    result = invoke("lock", manifest, "--check")
    refusal = ""
    try:
        find_environment(load_manifest(manifest))
    except PlanError as err:
        refusal = str(err)
    assert refusal in result.output
    assert bool(refusal) == bool(result.exit_code)
    assert not [words for words in NEVER if words in result.output]
    return result


@pytest.mark.cause(15)
@pytest.mark.parametrize("name", FORGED)
def test_a_lock_that_names_what_nobody_can_check(tmp_path: Path, good: str, name: str) -> None:
    forge, says = FORGED[name]
    assert_refused(checked(tmp_path, forge(good)), says, codes=[4])


HONEST: dict[str, Callable[[str], Any]] = {
    "as uv wrote it": str,
    "https": url("https://x.org"),
    "https in capitals": url("HTTPS://x.org", f'{{ sha256 = "{DIGEST.upper()}" }}'),
    "https with a password": url("https://me:secret@x.org"),
    "another hash beside it": url("https://x.org", f'{{ md5 = "ab", sha256 = "{DIGEST}" }}'),
    "a path": other_wheel(f'{{ path = "{JAX}", hashes = {{ sha256 = "{DIGEST}" }} }}'),
    "a folder": one_more('directory = { path = "own" }'),
    "git": one_more(f'vcs = {{ type = "git", url = "https://x.org/o", commit-id = "{COMMIT}" }}'),
    "git over ssh": one_more(
        f'vcs = {{ type = "git", url = "ssh://git@x.org/o", commit-id = "{COMMIT}" }}'
    ),
}


@pytest.mark.cause(15)
@pytest.mark.parametrize("name", HONEST)
def test_a_lock_that_can_be_checked(tmp_path: Path, good: str, name: str) -> None:
    assert_done(checked(tmp_path, HONEST[name](good)))


@pytest.mark.cause(15)
def test_a_message_stays_short(tmp_path: Path, good: str) -> None:
    many = ", ".join('{ url = "http://x.org/' + "o" * 5000 + '.whl" }' for _ in range(500))
    result = checked(tmp_path, one_more(f"wheels = [{many}]")(good))
    assert_refused(result, "and 995 more", codes=[4])
    assert len(result.output) < 4000


@pytest.mark.cause(16)
@special
@pytest.mark.parametrize("words", [("plan",), ("lock",), ("lock", "--check")], ids=" ".join)
def test_in_the_place_of_a_lock(
    words: tuple[str, ...], make: Callable[[Path], None], tmp_path: Path
) -> None:
    """It is refused: without a lock, other versions would be taken in silence."""
    manifest = project(tmp_path)
    make(tmp_path / LOCK)
    with no_hang():
        assert_refused(invoke(*words, manifest), LOCK, codes=[6])


@pytest.mark.cause(16)
def test_a_lock_that_leads_nowhere(tmp_path: Path) -> None:
    manifest = project(tmp_path)
    nowhere(tmp_path / LOCK)
    for words in (("plan",), ("lock",), ("lock", "--check")):
        assert_refused(invoke(*words, manifest), LOCK, codes=[6])


@pytest.mark.cause(16)
@special
def test_in_the_place_of_a_pyproject(make: Callable[[Path], None], tmp_path: Path) -> None:
    manifest = project(tmp_path)
    make(tmp_path / "pyproject.toml")
    with no_hang():
        assert_refused(invoke("plan", manifest), "pyproject.toml", codes=[4])
