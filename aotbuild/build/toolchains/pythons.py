"""Find an installed Python of a version."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from packaging.version import InvalidVersion, Version

from aotbuild.build.toolchains.uv import UvFailed, run_uv

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

    The running one is taken if it fits; else one of PATH, of pyenv, or of those that uv manages,
    in this order. uv's own search stops at the first name on PATH, and a shim of pyenv may be it.
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
    """Return the version of an interpreter; None if it does not run or is of another kind."""
    command = [str(path), "-I", "-c", _PROBE]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_PATIENCE, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    words = done.stdout.split()
    fits = done.returncode == 0 and words[:2] == ["cpython", platform.machine()]
    return words[2] if fits else None
