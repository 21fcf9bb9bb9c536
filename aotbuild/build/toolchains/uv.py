"""The program uv: where it is, and how it is run."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from aotbuild.errors import PlanError

# These would choose an environment or an interpreter for uv; every call names its own. What uv
# reads of indexes, certificates and its cache stays as the user set it.
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
    """uv ended with an error; the text is what it said."""


def run_uv(arguments: Sequence[str | Path], folder: Path) -> str:
    """Run uv in `folder`, whose uv.toml it reads, and return its stdout; UvFailed has its words."""
    done = subprocess.run(
        [uv_program(), "--color=never", "--no-progress", *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        env=_environment(os.environ),
        cwd=folder,
        check=False,
    )
    if done.returncode:
        raise UvFailed(done.stderr.strip() or f"exit code {done.returncode}")
    return done.stdout


def uv_program() -> str:
    """Return the path of uv: that of the PyPI package, else one on PATH; PlanError without."""
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


def _environment(inherited: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in inherited.items() if name not in _DROPPED}
