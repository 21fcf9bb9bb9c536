"""Builds in odd places: locales, paths, variables, limits, streams, links, clocks."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from faults.ended import assert_done, assert_refused
from faults.odd_builds import Project
from support.cli import invoke
from support.forks import forked
from support.full_disk import full_disk
from support.installs import tree_of
from support.moments import leftovers
from support.projects import ONE_FUNCTION

pytestmark = pytest.mark.process

# --- paths and locales ----------------------------------------------------------------------------

C_LOCALE = {"LC_ALL": "C", "PYTHONUTF8": "0"}
NAMES = {
    "beyond ASCII, in the C locale": ("ü".encode(), C_LOCALE),
    "not UTF-8": (b"\xff\xfe", {}),
}


@pytest.mark.parametrize("name", NAMES)
def test_a_path_is_no_text(made: Path, tmp_path: Path, name: str) -> None:
    """A compiler traces the function there, and the package is called from there."""
    raw, env = NAMES[name]
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + raw))
    folder.mkdir()
    project = Project(made, folder)
    env = {**env, "AOTBUILD_STORE": "off"}
    assert_done(project.run("build", "--out", "out/_aot", env=env))
    assert tree_of(project.root / "out" / "_aot") == tree_of(made / "out" / "_aot")
    code = (
        "import aotbuild, json, os, numpy as np\n"
        "x = np.ones(2, np.float32)\n"
        "libs = [aotbuild.load(f'{os.getcwd()}/out/_aot', arrays=a) for a in ('jax', 'numpy')]\n"
        "print(json.dumps([lib.f(x).tolist() for lib in libs]))\n"
    )
    assert forked(code, path=project.root) == [[2, 2], [2, 2]]
    assert_done(project.run("inspect", folder / "p" / "out" / "_aot", env=env))
    assert_refused(project.run("inspect", folder / "gone", env=env), "gone' was found")


def test_a_folder_with_an_odd_name(project: Project) -> None:
    name = b"a b\n\x1b[31m" + b"a" * 240
    folder = Path(os.fsdecode(os.fsencode(project.folder) + b"/" + name))
    root = Path(shutil.copytree(project.root, folder / "p"))
    os.chdir(root)
    assert_done(project.build("--in-place"))
    project.assert_built(root / "proj" / "_aot")
    assert_done(invoke("inspect", root / "proj" / "_aot"))
    assert_refused(invoke("inspect", folder / "gone"), "gone' was found")


LOCALES = {
    "C without UTF-8": C_LOCALE,
    "ASCII streams": {"PYTHONIOENCODING": "ascii:strict"},
}


@pytest.mark.parametrize("locale", LOCALES)
def test_a_locale(project: Project, locale: str) -> None:
    """Errors name what is beyond ASCII, whatever can be printed."""
    (project.root / "aot.yaml").write_text(ONE_FUNCTION.replace("proj.code:f", "proj.cöde:f"))
    assert_refused(project.run("plan", env=LOCALES[locale]), "functions.f.call")


# --- variables ------------------------------------------------------------------------------------


def test_variables_of_the_interpreter(project: Project) -> None:
    env = {
        "PYTHONOPTIMIZE": "2",
        "PYTHONWARNINGS": "error",
        "PYTHONDEVMODE": "1",
        "PYTHONINTMAXSTRDIGITS": "640",
        "LD_PRELOAD": "/nonexistent.so",
    }
    assert_done(project.run("build", "--out", project.package, env=env))
    project.assert_built()


VARIABLES = {
    "HOME": ("", "/etc/passwd"),
    "XDG_CACHE_HOME": ("relative", "relative"),
    "TMPDIR": ("/nonexistent", "/proc"),
    "XLA_FLAGS": ("--nonsense", "--nonsense"),
    "JAX_PLATFORMS": ("nonsense", "nonsense"),
    "TZ": ("../../etc/passwd", "Nowhere/Such"),
    "COLUMNS": ("0", "x"),
    "TERM": ("nonsense", ""),
    "SOURCE_DATE_EPOCH": ("x", "-1"),
    "GITHUB_STEP_SUMMARY": ("/nonexistent/file", "/"),
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
    "with children that nobody waits for": lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN),
    "with all signals blocked": with_signals_blocked,
    "with 16 files": limited(resource.RLIMIT_NOFILE, 16),
    "with 1 GiB of memory": limited(resource.RLIMIT_AS, 1 << 30),
    "in a folder that is gone": in_a_folder_that_is_gone,
}


@pytest.mark.parametrize("name", PROCESSES)
def test_a_process(project: Project, name: str) -> None:
    manifest = project.root / "aot.yaml"
    arguments = ("build", manifest, "--root", project.root, "--out", project.package)
    assert_done(project.run(*arguments, preexec_fn=PROCESSES[name]))
    project.assert_built()


def test_a_process_that_compiles(project: Project) -> None:
    """With a store that lacks everything."""
    name = "without any of them"
    manifest = project.root / "aot.yaml"
    arguments = ("build", manifest, "--root", project.root, "--out", project.package)
    env = {"AOTBUILD_STORE": str(project.folder / "store")}
    assert_done(project.run(*arguments, preexec_fn=PROCESSES[name], env=env))
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


def test_files_that_may_not_grow(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")  # half a file would stay
    with full_disk(100):
        ended = project.build()
    assert_refused(ended)
    assert not project.package.exists()
    assert leftovers(project.folder) == []
