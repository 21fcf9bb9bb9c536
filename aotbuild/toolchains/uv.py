"""The program uv: where it is, how it is run, the Pythons it uses, and its folder here."""

from __future__ import annotations

import fcntl
import logging
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from packaging.version import InvalidVersion, Version

from aotbuild.errors import PlanError
from aotbuild.format.files import make_folders
from aotbuild.format.lifeline import Lifeline, run_tied
from aotbuild.format.owners import who_else_writes
from aotbuild.format.words import quote
from aotbuild.store.place import user_cache

# These would choose an environment or an interpreter for uv; every call names its own. Settings of
# indexes, certificates and uv's cache stay as the user set them.
_DROPPED = frozenset(
    {
        "CONDA_PREFIX",
        "PYTHONHOME",
        "PYTHONPATH",
        "UV_PROJECT_ENVIRONMENT",
        "UV_PYTHON",
        "UV_SYSTEM_PYTHON",
        "VIRTUAL_ENV",
    }
)
# uv puts environment variables into requirements: `${NAME}`, also in those of a folder's or wheel's
# metadata, and in the project's settings of uv. Where no code runs, it gets only what it may need:
# its own settings, and what leads to indexes and servers of git, as who the user is there.
_PASSED = frozenset(
    {
        *("ALL_PROXY", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"),
        *("CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "NETRC"),
        *(
            "DBUS_SESSION_BUS_ADDRESS",
            "HOME",
            "LANG",
            "LOGNAME",
            "PATH",
            "TEMP",
            "TMP",
            "TMPDIR",
            "USER",
        ),
    }
)
_PASSED_PREFIXES = ("DYLD_", "GIT_", "LC_", "LD_", "RUST_", "SSH_", "SSL_", "UV_", "XDG_")
# A keyring that the user let uv ask is a program of a cloud, which has its own variables.
_KEYRING, _KEYRING_PREFIXES = (
    "UV_KEYRING_PROVIDER",
    ("AWS_", "AZURE_", "CLOUDSDK_", "GOOGLE_", "PYTHON_KEYRING_"),
)


class UvFailed(Exception):
    """uv exited with an error; the text is its stderr."""


def run_uv(arguments: Sequence[str | Path], folder: Path, *, builds: bool = True) -> str:
    """Run uv in `folder`, whose uv.toml it reads, and return its stdout; UvFailed if it fails.

    What `builds` packages has the whole environment: compilers and their code may need any of it.
    """
    line = Lifeline()
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in _DROPPED and (builds or _is_passed(name))
    }
    try:
        # Tied: if this process is killed, another one may make the same environment at once.
        with subprocess.Popen(
            [uv_program(), "--color=never", "--no-progress", *map(str, arguments)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
            env={**kept, **line.variables},
            cwd=folder,
            pass_fds=line.files,
        ) as process:
            line.tie(process)
            out, err = process.communicate()
    finally:
        line.close()
    if process.returncode:
        raise UvFailed(err.strip() or f"exit code {process.returncode}")
    return out


def _is_passed(name: str) -> bool:
    prefixes: tuple[str, ...] = _PASSED_PREFIXES
    if os.environ.get(_KEYRING, "disabled") != "disabled":
        prefixes += _KEYRING_PREFIXES
    return name.upper() in _PASSED or name.startswith(prefixes)


def uv_program() -> str:
    """Return the path of uv, from its PyPI package or PATH; PlanError if there is none."""
    try:
        from uv import find_uv_bin

        return str(find_uv_bin())
    except (ImportError, FileNotFoundError):
        found = shutil.which("uv")
    if found is None:
        msg = (
            "a toolchain has to be made by uv, which is not installed; "
            "install aotbuild[build], which brings it"
        )
        raise PlanError(msg)
    return found


_PROBE = (
    "import platform, sys; print(sys.implementation.name, platform.machine(), "
    "platform.python_version())"
)
_PATIENCE = 20.0  # seconds for an interpreter to start


@dataclass(frozen=True)
class Python:
    """An interpreter that is installed, and its version, as `3.11.7`."""

    path: Path
    version: str


def running_python() -> str:
    """Return the version of this Python as `3.11`."""
    return ".".join(map(str, sys.version_info[:2]))


@cache
def find_python(version: str) -> Python | None:
    """Return a CPython of a version (`3.11`) and of this machine's architecture, or None.

    The running one comes first, then those on PATH, of pyenv, and of uv. uv's own search would stop
    at the first name on PATH, which may be a shim of pyenv.
    """
    if version == running_python():
        return Python(Path(sys.executable), platform.python_version())
    for path in _candidates(version):
        found = _version_of(path)
        if found and found.startswith(f"{version}."):
            return Python(path, found)
    return None


def _candidates(version: str) -> Iterator[Path]:
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        path = Path(folder, f"python{version}")
        if folder and path.is_file():
            yield path
    root = os.environ.get("PYENV_ROOT")
    versions = Path(root) if root else Path("~/.pyenv").expanduser()
    found = versions.glob(f"versions/{version}.*/bin/python")
    yield from sorted(found, key=_release, reverse=True)
    try:
        query = ("python", "find", "--managed-python", "--no-python-downloads", version)
        yield Path(run_uv(query, Path.cwd()).strip())
    except UvFailed:
        return


def _release(path: Path) -> Version:
    try:
        return Version(path.parent.parent.name)
    except InvalidVersion:
        return Version("0")


def _version_of(path: Path) -> str | None:
    """Return the version of a CPython of this architecture; None for anything else."""
    command = [str(path), "-I", "-c", _PROBE]
    try:
        done = run_tied(command, _PATIENCE, text=True)
    except (OSError, subprocess.TimeoutExpired):
        return None
    words = done.stdout.split()
    fits = done.returncode == 0 and words[:2] == ["cpython", platform.machine()]
    return words[2] if fits else None


VARIABLE = "AOTBUILD_TOOLCHAINS"
_LOG = logging.getLogger("aotbuild")


def cache_root(environment: Mapping[str, str]) -> Path:
    """Return AOTBUILD_TOOLCHAINS, or a folder in the user's cache; PlanError if there is none."""
    chosen = environment.get(VARIABLE)
    if chosen:
        # A relative one would be another one in each folder, and shipped in source distributions.
        place = Path(os.path.expanduser(chosen))  # noqa: PTH111 - raises for no user
        if not place.is_absolute():
            expected = "an absolute path, or one that begins with ~/"
            msg = f"{VARIABLE}: expected {expected}, found {quote(chosen)}"
            raise PlanError(msg)
        return place
    cache = user_cache(environment)
    if cache is None:
        msg = f"toolchains have no place: set HOME, or {VARIABLE} to a folder that is kept"
        raise PlanError(msg)
    return cache / "toolchains"


@contextmanager
def locked(place: Path, say: Callable[[str], None]) -> Iterator[None]:
    """Hold the lock of a path while other processes wait for it; it ends with the process.

    `say` is told what it waits for.
    """
    make_folders(place.parent)
    with place.with_name(f"{place.name}.lock").open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"waiting for another build, which has {file.name}")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def cache_folder() -> Path:
    """Return `cache_root` of this process, made if needed; a warning if others may write to it."""
    folder = cache_root(os.environ)
    make_folders(folder)
    if problem := who_else_writes(folder.stat()):
        _warn(f"{folder}: {problem}, and builds would run what others put there")
    return folder


@cache
def _warn(text: str) -> None:
    """Warn once: a build asks for this folder several times."""
    _LOG.warning("%s. Choose another folder with %s", text, VARIABLE)
