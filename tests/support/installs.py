"""Wheels and environments as users make them, and cheaper ones that tests share.

`pip` is what a user runs, in isolation: seconds of CPU time for each environment that it fills. One
test builds a wheel that way, and one environment is filled that way. All others take the tests' own
environment to build in, and lay an environment of their own over one that is there.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

from aotbuild.toolchains.uv import run_uv


def pip(python: Path | str, *arguments: str | Path, links: Path, **env: str) -> str:
    """Run pip so that it finds aotbuild's own wheel in `links`; return what it printed."""
    inherited = os.environ.get("PIP_FIND_LINKS", "").split()
    environment = {
        **{k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "AOTBUILD_"))},
        **{k: os.environ[k] for k in ("AOTBUILD_TOOLCHAINS", "AOTBUILD_JOBS")},
        "PIP_FIND_LINKS": " ".join([links.as_uri(), *inherited]),
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "AOTBUILD_STORE": "off",
        **env,
    }
    command = [str(python), "-m", "pip", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=links)
    if done.returncode:
        printed = done.stdout + done.stderr
        error = subprocess.CalledProcessError(done.returncode, command, output=printed)
        error.add_note(printed)
        raise error
    return done.stdout


def build_wheel(project: Path, out: Path, **env: str) -> Path:
    """Build a project's wheel with pip, in the environment of the tests; return the wheel."""
    out.mkdir(parents=True, exist_ok=True)
    options = ("wheel", "--no-deps", "--no-build-isolation", "-w", out)
    pip(sys.executable, *options, project, links=out, **env)
    (wheel,) = out.glob("*.whl")
    return wheel


def tree_of(root: Path) -> dict[str, bytes]:
    return {str(p.relative_to(root)): p.read_bytes() for p in root.rglob("*") if p.is_file()}


def make_venv(folder: Path) -> Path:
    """Make an environment with nothing but pip, and return its Python."""
    venv.create(folder, with_pip=True)
    return folder / "bin" / "python"


def make_layer(folder: Path, below: Path | str = sys.executable) -> Path:
    """Make an environment that also has what is in another one, with its pip; return its Python.

    What is installed goes into the new one, and pip takes what is below for installed already.
    """
    venv.create(folder, with_pip=False)
    base = Path(below).parents[1]
    place = sysconfig.get_path("purelib", "venv", {"base": str(base)})
    (site,) = folder.glob("lib/python*/site-packages")
    (site / "below.pth").write_text(f"import site; site.addsitedir({place!r})\n")
    return folder / "bin" / "python"


def install_by_uv(
    folder: Path, *requirements: str | Path, links: Path, python: Path | str = sys.executable
) -> Path:
    """Make an environment with uv, which keeps to what wheels require, and return its Python."""
    run_uv(("venv", "--quiet", "--python", python, folder), folder.parent)
    place = ("--python", folder / "bin" / "python", "--find-links", links)
    run_uv(("pip", "install", "--quiet", *place, *map(str, requirements)), folder.parent)
    return folder / "bin" / "python"
