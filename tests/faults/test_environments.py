"""Builds in odd places: locales, paths, variables, limits, streams, links, clocks."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from faults.ended import LIMIT, assert_done, assert_refused, files_in, forking
from support.cli import invoke
from support.forks import forked
from support.installs import tree_of
from support.moments import leftovers
from support.processes import ROOT, clean_environment
from support.projects import ONE_FUNCTION, PYPROJECT, write_project
from support.shared import made_once

pytestmark = [pytest.mark.process, pytest.mark.any_jax]

CODE = "def f(x):\n    return x + 1\n"


@pytest.fixture(scope="module")
def made(run: Path) -> Path:
    """A project that was built, into `out`, with a store."""

    def make(folder: Path) -> None:
        root = write_project(folder / "p", ONE_FUNCTION, code=CODE)
        (root / "pyproject.toml").write_text(PYPROJECT)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("AOTBUILD_STORE", str(folder / "store"))
            patch.setenv("AOTBUILD_DIRECT", "on")
            patch.chdir(root)
            assert_done(invoke("build", "--out", folder / "out" / "_aot"))

    return made_once(run / "faults-environments", make)


class Project:
    """A copy of the project, whose builds take everything from the store."""

    def __init__(self, made: Path, folder: Path) -> None:
        self.made, self.folder = made, folder
        self.root = Path(shutil.copytree(made / "p", folder / "p"))
        self.package = folder / "out" / "_aot"

    def build(self, *arguments: object) -> Any:
        """Build in this process."""
        return invoke("build", *(arguments or ("--out", self.package)))

    def assert_built(self, package: Path | None = None) -> None:
        """Check that the package is that of any other build, and nothing else is left."""
        assert tree_of(package or self.package) == tree_of(self.made / "out" / "_aot")
        assert leftovers(self.folder) == []

    def run(self, *arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
        """Run `aotbuild ARGUMENTS` in a process of its own."""
        env = {"AOTBUILD_STORE": str(self.made / "store"), "AOTBUILD_DIRECT": "on"}
        variables = {**env, "PYTHONPATH": str(ROOT), **options.pop("env", {})}
        with forking():
            return subprocess.run(
                [sys.executable, "-m", "aotbuild.cli", *map(str, arguments)],
                env=clean_environment(**variables),
                **{
                    "cwd": self.root,
                    "stdin": subprocess.DEVNULL,
                    "stdout": subprocess.PIPE,
                    "stderr": subprocess.PIPE,
                    "timeout": LIMIT,
                    "text": True,
                    "errors": "replace",
                    **options,
                },
            )


@pytest.fixture
def project(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Project]:
    monkeypatch.setenv("AOTBUILD_STORE", str(made / "store"))
    monkeypatch.setenv("AOTBUILD_DIRECT", "on")
    project = Project(made, tmp_path)
    monkeypatch.chdir(project.root)
    yield project
    os.chdir(ROOT)


# --- paths and locales ----------------------------------------------------------------------------

C_LOCALE = {"LC_ALL": "C", "PYTHONUTF8": "0"}
NAMES = {
    "beyond ASCII, in the C locale": ("ü".encode(), C_LOCALE),
    "not UTF-8": (b"\xff\xfe", {}),
}


@pytest.mark.cause(24)
@pytest.mark.parametrize("name", NAMES)
def test_a_path_is_no_text(made: Path, tmp_path: Path, name: str) -> None:
    """A compiler traces the function there, and the package is called from there."""
    raw, env = NAMES[name]
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + raw))
    folder.mkdir()
    project = Project(made, folder)
    env = {**env, "AOTBUILD_STORE": "off", "AOTBUILD_DIRECT": "off"}
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


FOLDERS = {
    "a space": b"a b",
    "a line end": b"a\nb",
    "quotes": b"a'\"$(b)`",
    "a control character": b"a\x1b[31m",
    "a dash first": b"-a",
    "a comma and a colon": b"a,b:c;d",
    "emoji": "😀".encode(),
    "the longest name": b"a" * 255,
}


@pytest.mark.parametrize("name", FOLDERS)
def test_a_folder_whose_name_has(project: Project, name: str) -> None:
    folder = Path(os.fsdecode(os.fsencode(project.folder) + b"/" + FOLDERS[name]))
    root = Path(shutil.copytree(project.root, folder / "p"))
    os.chdir(root)
    assert_done(project.build("--in-place"))
    project.assert_built(root / "proj" / "_aot")
    assert_done(invoke("inspect", root / "proj" / "_aot"))
    assert_refused(invoke("inspect", folder / "gone"), "gone' was found")


LOCALES = {
    "C": {"LC_ALL": "C"},
    "C without UTF-8": C_LOCALE,
    "unknown": {"LC_ALL": "xx_YY.zz"},
    "ASCII streams": {"PYTHONIOENCODING": "ascii:strict"},
}


@pytest.mark.cause(24)
@pytest.mark.parametrize("locale", LOCALES)
def test_a_locale(project: Project, locale: str) -> None:
    """Errors name what is beyond ASCII, whatever can be printed."""
    (project.root / "aot.yaml").write_text(ONE_FUNCTION.replace("proj.code:f", "proj.cöde:f"))
    assert_refused(project.run("plan", env=LOCALES[locale]), "functions.f.call")


# --- variables ------------------------------------------------------------------------------------

PYTHON = {
    "PYTHONOPTIMIZE": "2",
    "PYTHONWARNINGS": "error",
    "PYTHONMALLOC": "debug",
    "PYTHONDEVMODE": "1",
    "PYTHONINTMAXSTRDIGITS": "640",
    "LD_PRELOAD": "/nonexistent.so",
}


@pytest.mark.parametrize("variable", PYTHON)
def test_a_variable_of_the_interpreter(project: Project, variable: str) -> None:
    env = {variable: PYTHON[variable]}
    assert_done(project.run("build", "--out", project.package, env=env))
    project.assert_built()


VARIABLES = {
    "HOME": ("", "/nonexistent", "relative", "/etc/passwd"),
    "XDG_CACHE_HOME": ("relative", "/etc/passwd"),
    "TMPDIR": ("", "/nonexistent", "relative", "/etc/passwd", "/proc"),
    "PATH": ("",),
    "XLA_FLAGS": ("--nonsense",),
    "JAX_PLATFORMS": ("nonsense",),
    "TZ": ("Nowhere/Such", "../../etc/passwd"),
    "COLUMNS": ("0", "-1", "x"),
    "TERM": ("", "nonsense"),
    "SOURCE_DATE_EPOCH": ("", "x", "-1", "99999999999999999999"),
    "GITHUB_STEP_SUMMARY": ("/nonexistent/file", "/"),
    "AOTBUILD_JOBS": ("999999",),
    "AOTBUILD_TIMEOUT": ("", "1", "31622400"),
}


@pytest.mark.parametrize(("name", "value"), [(n, v) for n, vs in VARIABLES.items() for v in vs])
def test_a_variable_that_changes_nothing(
    project: Project, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    monkeypatch.setattr(tempfile, "tempdir", None)
    assert_done(project.build())
    project.assert_built()


REFUSED_AS = {"AOTBUILD_EXECUTOR": "executor: "}
REFUSED = {
    "AOTBUILD_JOBS": ("0", "-1", "x", "1.5", "²", "٣x", "1" + "0" * 30),
    "AOTBUILD_TIMEOUT": ("0", "-1", "x", "1.5", "²", "٣", "1" + "0" * 30, "inf"),
    "AOTBUILD_STORE": ("relative", "s3:", ","),
    "AOTBUILD_DIRECT": ("maybe",),
    "AOTBUILD_TIMES": ("maybe",),
    "AOTBUILD_EXECUTOR": ("nonsense", "dask://me:hunter2@localhost:1"),
    "AOTBUILD_SHARD": ("0/0", "3/2", "x"),
}


@pytest.mark.parametrize(("name", "value"), [(n, v) for n, vs in REFUSED.items() for v in vs])
def test_a_variable_that_is_refused(
    project: Project, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    if name == "AOTBUILD_JOBS":  # read when there is something to compile
        monkeypatch.setenv("AOTBUILD_STORE", "off")
    ended = project.build()
    assert_refused(ended, REFUSED_AS.get(name, name))
    assert "hunter2" not in ended.output
    assert not project.package.exists()


TIMES = {"": "found ''", "x": "found 'x'", "1e9": "found '1e9'", "4354819200": "after 2107"}


@pytest.mark.parametrize("text", TIMES)
def test_a_time_that_no_wheel_can_have(project: Project, text: str) -> None:
    """Before anything is compiled."""
    code = (
        "import json, sys\n"
        "from hatchling.build import build_wheel\n"
        "try:\n    build_wheel(sys.argv[1])\n"
        "except SystemExit as end:\n    print(json.dumps(end.code))\n"
    )
    env = {"AOTBUILD_STORE": "off", "SOURCE_DATE_EPOCH": text}
    assert forked(code, str(project.folder), path=project.root, **env) == 1
    assert files_in(project.folder) - {"p"} == {
        f"p/{name}" for name in files_in(project.made / "p")
    }


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
    "without stdin": without(0),
    "without stdout": without(1),
    "without stderr": without(2),
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


@pytest.mark.parametrize("name", ["without any of them", "in a folder that is gone"])
def test_a_process_that_compiles(project: Project, name: str) -> None:
    """With a store that lacks everything."""
    manifest = project.root / "aot.yaml"
    arguments = ("build", manifest, "--root", project.root, "--out", project.package)
    env = {"AOTBUILD_STORE": str(project.folder / "store")}
    assert_done(project.run(*arguments, preexec_fn=PROCESSES[name], env=env))
    project.assert_built()


@pytest.mark.parametrize("umask", [0o000, 0o027, 0o077])
def test_a_umask(project: Project, umask: int) -> None:
    before = os.umask(umask)
    try:
        assert_done(project.build())
    finally:
        os.umask(before)
    project.assert_built()
    modes = {path.stat().st_mode & 0o777 for path in project.package.rglob("*") if path.is_file()}
    assert modes == {0o644 & ~umask}


@pytest.mark.parametrize("most", [0, 100])
def test_files_that_may_not_grow(project: Project, most: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, hard))
    try:
        ended = project.build()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, handler)
    assert_refused(ended)
    assert not project.package.exists()
    assert leftovers(project.folder) == []


# --- files ----------------------------------------------------------------------------------------

OUTPUTS: dict[str, Callable[[Path], object]] = {
    "a file": Path.touch,
    "a pipe": os.mkfifo,
    "a link to nothing": lambda path: path.symlink_to("/nonexistent/place"),
    "a link to itself": lambda path: path.symlink_to(path.name),
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
        ("/proc/nowhere/_aot", "/proc/nowhere"),
        ("/dev/null/_aot", "/dev/null"),
        ("x" * 300 + "/_aot", "File name too long"),
        ("d/" * 3000 + "_aot", "File name too long"),
        ("/", "is not an _aot folder"),
        ("", "is not an _aot folder"),
    ],
    ids=["in /proc", "below a device", "long", "deep", "the root", "empty"],
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
def all_that_is_in_the_project(project: Project) -> Path:
    folder = project.folder / "links"
    folder.mkdir()
    for path in project.root.iterdir():
        (folder / path.name).symlink_to(path)
    return folder


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


@pytest.mark.parametrize("seconds", [0, -1, -(10**9), 1, 2**31, 2**32, 2**33])
def test_a_clock(project: Project, seconds: int) -> None:
    """Files are of 1970, of the future, and of before all time."""
    for path in (project.root / "aot.yaml", project.root / "proj" / "code.py", project.root):
        with suppress(OverflowError):
            os.utime(path, (seconds, seconds))
    assert_done(project.build())
    project.assert_built()


MANIFESTS = {
    "UTF-16": (ONE_FUNCTION.encode("utf-16"), "not UTF-8 (byte 0xff)"),
    "Latin-1": (ONE_FUNCTION.encode() + b"# \xfc\n", "not UTF-8 (byte 0xfc)"),
    "a NUL": (ONE_FUNCTION.encode() + b"\0", "U+0000 is not allowed"),
    "nothing": (b"", "the file is empty"),
    "another case": (ONE_FUNCTION.replace("package: proj", "package: Proj").encode(), "Proj"),
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
