"""Builds whose files are odd: outputs, links, clocks, manifests, and what may not be written."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from faults.ended import LIMIT, assert_done, assert_refused
from faults.odd_builds import Project
from support.installs import tree_of
from support.moments import leftovers
from support.projects import ONE_FUNCTION

pytestmark = pytest.mark.process


OUTPUTS: dict[str, Callable[[Path], object]] = {
    "a file": Path.touch,
    "a link to nothing": lambda path: path.symlink_to("/nonexistent/place"),
    "a folder of something else": lambda path: (path / "other").mkdir(parents=True),
}


@pytest.mark.parametrize("name", OUTPUTS)
def test_an_output_that_is(project: Project, name: str) -> None:
    place = project.root / "proj" / "_aot"
    OUTPUTS[name](place)
    before = place.lstat()
    assert_refused(project.build("--in-place"), "proj/_aot")
    assert place.lstat().st_ino == before.st_ino
    assert leftovers(project.folder) == []


@pytest.mark.parametrize(
    ("out", "says"),
    [
        ("/dev/null/_aot", "/dev/null"),
        ("d/" * 3000 + "_aot", "File name too long"),
        ("/", "is not an _aot folder"),
        ("", "is not an _aot folder"),
    ],
    ids=["below a device", "deep", "the root", "empty"],
)
def test_an_output_that_cannot_be(project: Project, out: str, says: str) -> None:
    assert_refused(project.build("--out", out), says)


LINKS: dict[str, Callable[[Project], Path]] = {}


def linked(make: Callable[[Project], Path]) -> Callable[[Project], Path]:
    LINKS[make.__name__.replace("_", " ")] = make
    return make


@linked
def the_project(project: Project) -> Path:
    (project.folder / "link").symlink_to(project.root)
    return project.folder / "link"


@linked
def the_output(project: Project) -> Path:
    (project.folder / "elsewhere").mkdir()
    (project.root / "proj" / "_aot").symlink_to(project.folder / "elsewhere")
    return project.root


@linked
def the_source(project: Project) -> Path:
    code = project.root / "proj" / "code.py"
    code.rename(project.folder / "code")
    code.symlink_to(project.folder / "code")
    return project.root


@pytest.mark.parametrize("name", LINKS)
def test_a_link_in_the_place_of(project: Project, name: str) -> None:
    root = LINKS[name](project)
    os.chdir(root)
    assert_done(project.build("--in-place"))
    # Which of its sources are the project's own depends on the links; what was compiled does not.
    blobs = Path("_aot", "blobs")
    assert tree_of(root / "proj" / blobs) == tree_of(project.made / "out" / blobs)
    assert leftovers(project.folder) == []


def test_a_clock(project: Project) -> None:
    """Files are of 1970, of the future, and of before all time."""
    for path, seconds in (("aot.yaml", 0), ("proj/code.py", 2**33), (".", -1)):
        with suppress(OverflowError):
            os.utime(project.root / path, (seconds, seconds))
    assert_done(project.build())
    project.assert_built()


MANIFESTS = {
    "UTF-16": (ONE_FUNCTION.encode("utf-16"), "not UTF-8 (byte 0xff)"),
    "a NUL": (ONE_FUNCTION.encode() + b"\0", "U+0000 is not allowed"),
    "another case of a module": (
        ONE_FUNCTION.replace("proj.code", "proj.Code").encode(),
        "proj.Code",
    ),
}


@pytest.mark.parametrize("name", MANIFESTS)
def test_a_manifest_in(project: Project, name: str) -> None:
    data, says = MANIFESTS[name]
    (project.root / "aot.yaml").write_bytes(data)
    assert_refused(project.build(), says)
    assert not project.package.exists()


@pytest.mark.parametrize("how", ["CRLF", "a byte order mark"])
def test_a_manifest_of_windows(project: Project, how: str) -> None:
    data = ONE_FUNCTION.encode()
    data = data.replace(b"\n", b"\r\n") if how == "CRLF" else b"\xef\xbb\xbf" + data
    (project.root / "aot.yaml").write_bytes(data)
    assert_done(project.build())


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
        ended = project.run("build", *chosen, preexec_fn=as_an_ordinary_user)
    finally:
        for folder in folders:
            folder.chmod(0o755)
    if says:
        assert_refused(ended, says)
    else:
        assert_done(ended)
        project.assert_built()
    assert leftovers(project.folder) == []


def test_a_folder_for_temporary_files_that_cannot_be_written(project: Project) -> None:
    """Python takes another one."""
    folder = project.folder / "read-only"
    folder.mkdir(0o555)
    env = {"TMPDIR": str(folder)}
    ended = project.run(
        *("build", "--out", project.package), env=env, preexec_fn=as_an_ordinary_user
    )
    assert_done(ended)
    project.assert_built()


def test_an_output_in_the_lower_layer_of_a_container(project: Project) -> None:
    """An overlay cannot rename folders of its lower layers."""
    layers = {name: project.folder / name for name in ("lower", "memory", "merged")}
    for folder in layers.values():
        folder.mkdir()
    old = layers["lower"] / "_aot"
    shutil.copytree(project.made / "out" / "_aot", old)
    stale = f"{0:064x}.exec"  # a blob of the earlier build
    (old / "blobs" / stale).touch()
    options = f"lowerdir={layers['lower']},upperdir={{0}}/upper,workdir={{0}}/work"
    memory, merged = str(layers["memory"]), str(layers["merged"])
    script = (
        'mount -t tmpfs tmpfs "$1" && mkdir "$1/upper" "$1/work" &&'
        ' mount -t overlay overlay -o "$3" "$2" || exit 99; shift 3; exec "$@"'
    )
    command = (sys.executable, "-m", "aotbuild.cli", "build", "--out", f"{merged}/_aot")
    given = (memory, merged, options.format(memory))
    check = ("sh", "-c", f'"$@" && find {merged} -mindepth 1 -maxdepth 3', "sh", *command)
    try:
        ended = subprocess.run(
            ["unshare", "--mount", "sh", "-c", script, "sh", *given, *check],
            capture_output=True,
            text=True,
            timeout=LIMIT,
            cwd=project.root,
        )
    except FileNotFoundError:
        pytest.skip("there is no unshare here")
    if ended.returncode in (1, 99) and "aotbuild" not in ended.stderr:
        pytest.skip(f"nothing can be mounted here: {ended.stderr.strip()}")
    assert_done(ended)
    lines = [line for line in ended.stdout.splitlines() if line.startswith(merged)]
    found = {line.removeprefix(f"{merged}/") for line in lines}
    assert "_aot/index" in found
    assert not [line for line in found if line.endswith(stale) or ".aotbuild" in line]
