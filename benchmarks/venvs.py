"""Environments of their own for the measured processes, made by uv from pinned requirements."""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

from benchmarks.places import BENCH, ENVIRONMENTS, HERE, ROOT

_WHEELS = BENCH / "wheel"
_LIMIT_S = 900
_SOURCES = ("aotbuild", "hatch_plugin", "configs")


class Unavailable(Exception):
    """Something cannot be measured here; the message is the reason, in one line."""


def make_environment(name: str) -> Path:
    """Return the Python of an environment, made anew if its requirements or our wheel changed."""
    requirements = HERE / "environments" / f"{name}.txt"
    if not requirements.exists():
        msg = f"benchmarks/environments/{name}.txt is missing"
        raise Unavailable(msg)
    lines = requirements_of(requirements.read_text(), _own_wheel)
    folder = ENVIRONMENTS / name
    python, stamp = folder / "bin" / "python", folder / "requirements.txt"
    wanted = "\n".join([f"# Python {platform.python_version()}", *lines, ""])
    if stamp.exists() and stamp.read_text() == wanted and python.exists():
        return python
    print(f"making the environment {name}", flush=True)
    if not (stamp.exists() and stamp.read_text().partition("\n")[0] == wanted.partition("\n")[0]):
        _uv("venv", "--clear", "--quiet", "--python", sys.executable, str(folder))
    listed = folder / "wanted.txt"
    listed.write_text(wanted)
    _install(python, listed)
    listed.replace(stamp)
    return python


def _install(python: Path, listed: Path) -> None:
    """Install with uv, or else with pip, which may know of places that uv does not."""
    options = ("--quiet", "--compile-bytecode", "--python", str(python))
    try:
        _uv("pip", "install", *options, "-r", str(listed))
    except Unavailable as err:
        _uv("pip", "install", "--quiet", "--python", str(python), "pip")
        lines = [line for line in listed.read_text().splitlines() if not line.startswith("--")]
        command = [str(python), "-m", "pip", "install", "--quiet", "--no-input", *lines[1:]]
        if subprocess.run(command, capture_output=True, check=False, timeout=900).returncode:
            raise err


def requirements_of(text: str, own_wheel: object) -> list[str]:
    """Return the requirements of a file; ours is replaced by the wheel that `own_wheel()` gives."""
    lines = [line.strip() for line in text.splitlines()]
    requirements = [line for line in lines if line and not line.startswith("#")]
    return [
        f"{line} @ {own_wheel().as_uri()}" if line.partition("[")[0] == "aotbuild" else line  # type: ignore[operator]
        for line in requirements
    ]


def _own_wheel() -> Path:
    """Return the wheel of this checkout, in a folder named after the digest of its sources."""
    folder = _WHEELS / _digest()
    for wheel in folder.glob("*.whl"):
        return wheel
    shutil.rmtree(_WHEELS, ignore_errors=True)
    print("building aotbuild's wheel", flush=True)
    _uv("build", "--quiet", "--wheel", "--out-dir", str(folder), str(ROOT))
    return next(folder.glob("*.whl"))


def _digest() -> str:
    digest = hashlib.sha256((ROOT / "pyproject.toml").read_bytes())
    for source in _SOURCES:
        for path in sorted((ROOT / source).rglob("*")):
            if path.is_file() and path.suffix != ".pyc":
                digest.update(f"{path.relative_to(ROOT)}\n".encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def _uv(*arguments: str) -> None:
    environment = {key: value for key, value in os.environ.items() if key != "VIRTUAL_ENV"}
    try:
        done = subprocess.run(
            [sys.executable, "-m", "uv", *arguments],
            capture_output=True,
            text=True,
            check=False,
            env=environment,
            timeout=_LIMIT_S,
        )
    except subprocess.TimeoutExpired as err:
        msg = f"uv {arguments[0]}: not done after {_LIMIT_S} s"
        raise Unavailable(msg) from err
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["no message"]
        msg = f"uv {arguments[0]} ended with {done.returncode}: {' '.join(lines)[-300:]}"
        raise Unavailable(msg)
