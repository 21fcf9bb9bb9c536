"""The program uv: where it is, how it is run, the Pythons it uses, and its folder here."""

from __future__ import annotations

import fcntl
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

from aotbuild.errors import PlanError
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


class UvFailed(Exception):
    """uv exited with an error; the text is its stderr."""


def run_uv(arguments: Sequence[str | Path], folder: Path) -> str:
    """Run uv in `folder`, whose uv.toml it reads, and return its stdout; UvFailed if it fails."""
    done = subprocess.run(
        [uv_program(), "--color=never", "--no-progress", *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        env={name: value for name, value in os.environ.items() if name not in _DROPPED},
        cwd=folder,
        check=False,
    )
    if done.returncode:
        raise UvFailed(done.stderr.strip() or f"exit code {done.returncode}")
    return done.stdout


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

    The running one comes first, then what uv finds.
    """
    if version == running_python():
        return Python(Path(sys.executable), platform.python_version())
    query = ("python", "find", "--system", "--no-project", "--no-python-downloads", version)
    try:
        path = run_uv(query, Path.cwd()).strip()
        command = [path, "-I", "-c", _PROBE]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_PATIENCE, check=False
        )
    except (UvFailed, OSError, subprocess.TimeoutExpired):
        return None
    words = done.stdout.split()
    is_fitting = done.returncode == 0 and words[:2] == ["cpython", platform.machine()]
    return Python(Path(path), words[2]) if is_fitting else None


VARIABLE = "AOTBUILD_TOOLCHAINS"


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

    `say` is told what it waits for. PlanError if the folder cannot be written.
    """
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        file = place.with_name(f"{place.name}.lock").open("a")
    except OSError as err:
        found = f"{err.strerror}: {err.filename}"
        expected = "a folder that can be written: the toolchains that uv makes are kept there"
        remedy = f"Set {VARIABLE} to such a folder."
        msg = f"toolchains cannot be made\n  expected {expected}\n  found    {found}\n{remedy}"
        raise PlanError(msg) from err
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"waiting for another build, which has {file.name}")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
