"""Builds in odd places: locales, paths, variables, limits, streams, links, read-only folders."""

from __future__ import annotations

import os
import resource
import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from faults.ended import assert_done, assert_refused, command
from faults.odd_builds import Project
from support.forks import forked
from support.installs import tree_of
from support.moments import leftovers
from support.processes import ROOT

pytestmark = pytest.mark.process

# --- paths and locales ----------------------------------------------------------------------------

C_LOCALE = {"LC_ALL": "C", "PYTHONUTF8": "0"}
NAMES = {"beyond ASCII, in the C locale": ("ü".encode(), C_LOCALE), "not UTF-8": (b"\xff\xfe", {})}


@pytest.mark.parametrize("name", NAMES)
def test_a_path_is_no_text(made: Path, tmp_path: Path, name: str) -> None:
    """A compiler traces the function there, and the package is called from there."""
    raw, env = NAMES[name]
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + raw))
    folder.mkdir()
    project = Project(made, folder)
    env = {**env, "AOTBUILD_STORE": "off"}
    assert_done(project.run("build", "--out", "out/_aot", **env))
    assert tree_of(project.root / "out" / "_aot") == tree_of(made / "out" / "_aot")
    code = (
        "import aotbuild, json, os, numpy as np\n"
        "x = np.ones(2, np.float32)\n"
        "libs = [aotbuild.load(f'{os.getcwd()}/out/_aot', arrays=a) for a in ('jax', 'numpy')]\n"
        "print(json.dumps([lib.f(x).tolist() for lib in libs]))\n"
    )
    assert forked(code, path=project.root) == [[2, 2], [2, 2]]
    assert_done(project.run("inspect", folder / "p" / "out" / "_aot", **env))
    assert_refused(project.run("inspect", folder / "gone", **env), "gone' was found")


# --- variables ------------------------------------------------------------------------------------


VARIABLES = {
    "XDG_CACHE_HOME": ("relative", "relative"),
    "TMPDIR": ("/nonexistent", "/proc"),
    "XLA_FLAGS": ("--nonsense", "--nonsense"),
    "JAX_PLATFORMS": ("nonsense", "nonsense"),
    "SOURCE_DATE_EPOCH": ("x", "-1"),
    "AOTBUILD_JOBS": ("999999", "1"),
    "AOTBUILD_TIMEOUT": ("31622400", ""),
}


@pytest.mark.parametrize("number", [0, 1])
def test_variables_that_change_nothing(
    project: Project, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    for name, values in VARIABLES.items():
        monkeypatch.setenv(name, values[number])
    monkeypatch.setattr(tempfile, "tempdir", None)
    assert_done(project.build())
    project.assert_built()


REFUSED_AS = {"AOTBUILD_EXECUTOR": "executor: "}
REFUSED = {
    "AOTBUILD_JOBS": ("0", "x", "²"),
    "AOTBUILD_TIMEOUT": ("0", "٣", "1" + "0" * 30, "inf"),
    "AOTBUILD_STORE": ("relative", "s3:", ","),
    "AOTBUILD_EXECUTOR": ("nonsense", "dask://me:hunter2@localhost:1"),
}


@pytest.mark.parametrize(("name", "value"), [(n, v) for n, vs in REFUSED.items() for v in vs])
def test_a_variable_that_is_refused(
    project: Project, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    if name in ("AOTBUILD_JOBS", "AOTBUILD_TIMEOUT"):  # read when there is something to compile
        monkeypatch.setenv("AOTBUILD_STORE", "off")
    ended = project.build()
    assert_refused(ended, REFUSED_AS.get(name, name))
    assert "hunter2" not in ended.output
    assert not project.package.exists()


# --- the process ----------------------------------------------------------------------------------


def limited(what: int, number: int) -> Callable[[], None]:
    return lambda: resource.setrlimit(what, (number, number))


def without(*numbers: int) -> Callable[[], None]:
    return lambda: [os.close(number) for number in numbers] and None


def with_signals_blocked() -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 32))


def in_a_folder_that_is_gone() -> None:
    folder = tempfile.mkdtemp()
    os.chdir(folder)
    Path(folder).rmdir()


PROCESSES: dict[str, Callable[[], Any]] = {
    "without any of them": without(0, 1, 2),
    "with all signals blocked": with_signals_blocked,
    "with 16 files": limited(resource.RLIMIT_NOFILE, 16),
    "in a folder that is gone": in_a_folder_that_is_gone,
}


@pytest.mark.parametrize("name", PROCESSES)
def test_a_process(project: Project, name: str) -> None:
    manifest = project.root / "aot.yaml"
    arguments = ("build", manifest, "--root", project.root, "--out", project.package)
    assert_done(project.run(*arguments, first=PROCESSES[name]))
    project.assert_built()


def test_a_umask(project: Project) -> None:
    umask = 0o077
    before = os.umask(umask)
    try:
        assert_done(project.build())
    finally:
        os.umask(before)
    project.assert_built()
    modes = {path.stat().st_mode & 0o777 for path in project.package.rglob("*") if path.is_file()}
    assert modes == {0o644 & ~umask}


# --- links ----------------------------------------------------------------------------------------


def the_project(project: Project) -> Path:
    (project.folder / "link").symlink_to(project.root)
    return project.folder / "link"


def the_output(project: Project) -> Path:
    (project.folder / "elsewhere").mkdir()
    (project.root / "proj" / "_aot").symlink_to(project.folder / "elsewhere")
    return project.root


def the_source(project: Project) -> Path:
    code = project.root / "proj" / "code.py"
    code.rename(project.folder / "code")
    code.symlink_to(project.folder / "code")
    return project.root


@pytest.mark.parametrize("link", [the_project, the_output, the_source])
def test_a_link_in_the_place_of(project: Project, link: Callable[[Project], Path]) -> None:
    root = link(project)
    os.chdir(root)
    assert_done(project.build("--in-place"))
    # Which of its sources are the project's own depends on the links; what was compiled does not.
    blobs = Path("_aot", "blobs")
    assert tree_of(root / "proj" / blobs) == tree_of(project.made / "out" / blobs)
    assert leftovers(project.folder) == []


# --- what may be written --------------------------------------------------------------------------

PR_SET_SECUREBITS, SECBIT_NOROOT = 28, 1


def as_an_ordinary_user() -> None:
    """Let a process that root starts obey the modes of files."""
    if os.geteuid() == 0:
        import ctypes

        ctypes.CDLL(None).prctl(PR_SET_SECUREBITS, SECBIT_NOROOT, 0, 0, 0)


READ_ONLY = {
    "in place": (("--in-place",), "Permission denied"),
    "beside the project": ((), "build: Permission denied"),
    "elsewhere": (("--out",), ""),
}


@pytest.mark.parametrize("where", READ_ONLY)
def test_a_project_that_cannot_be_written(project: Project, where: str) -> None:
    arguments, says = READ_ONLY[where]
    folders = [project.root / "proj", project.root]
    for folder in folders:
        folder.chmod(0o555)
    try:
        chosen = (*arguments, project.package) if where == "elsewhere" else arguments
        ended = project.run("build", *chosen, first=as_an_ordinary_user)
    finally:
        for folder in folders:
            folder.chmod(0o755)
    if says:
        assert_refused(ended, says)
    else:
        assert_done(ended)
        project.assert_built()
    assert leftovers(project.folder) == []


# --- other distributions, as interrupted installations leave them --------------------------------

# Folders `jax_NAME-1.0.dist-info`; `doctor` asks for what is named `jax-…`.
DAMAGES = {
    "empty": {},
    "unnamed": {"METADATA": b"Metadata-Version: 2.1\nVersion: 1.0\n"},
    "unversioned": {"METADATA": b"Metadata-Version: 2.1\nName: jax-unversioned\n"},
    "binary": {"METADATA": b"\xff\xfe", "RECORD": b"\xff\xfe"},
    "other": {"RECORD": b"other.py,,\n", "top_level.txt": b"other\n"},
}
PROGRAM = """\
import jax
from other import f
print(jax.jit(f)(1.0))
"""


def test_damaged_distributions(tmp_path: Path) -> None:
    site = tmp_path / "site"
    for name, files in DAMAGES.items():
        info = site / f"jax_{name}-1.0.dist-info"
        info.mkdir(parents=True)
        for file, data in files.items():
            (info / file).write_bytes(data)
    (site / "other.py").write_text("def f(x):\n    return x + 1\n")
    (tmp_path / "program.py").write_text(PROGRAM)
    path = f"{site}:{ROOT}"
    assert_done(command("doctor", PYTHONPATH=path))
    words = ("record", "--", sys.executable, "program.py")
    assert_done(command(*words, cwd=tmp_path, PYTHONPATH=path))
    assert "other:f" in (tmp_path / "aot.yaml").read_text()
