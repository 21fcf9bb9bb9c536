"""Runs pip as a user does, with aotbuild's own wheel at hand."""

from __future__ import annotations

import os
import subprocess
import venv
from pathlib import Path


def pip(python: Path | str, *arguments: str | Path, links: Path, **env: str) -> str:
    """Run pip so that it finds aotbuild's own wheel in `links`; return what it printed."""
    inherited = os.environ.get("PIP_FIND_LINKS", "").split()
    environment = {
        **{k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "AOTBUILD_"))},
        "AOTBUILD_TOOLCHAINS": os.environ["AOTBUILD_TOOLCHAINS"],
        "PIP_FIND_LINKS": " ".join([links.as_uri(), *inherited]),
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "AOTBUILD_STORE": "off",
        **env,
    }
    command = [str(python), "-m", "pip", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=links)
    if done.returncode:
        raise subprocess.CalledProcessError(
            done.returncode, command, output=done.stdout + done.stderr
        )
    return done.stdout


def tree_of(root: Path) -> dict[str, bytes]:
    return {str(p.relative_to(root)): p.read_bytes() for p in root.rglob("*") if p.is_file()}


def make_venv(folder: Path) -> Path:
    venv.create(folder, with_pip=True)
    return folder / "bin" / "python"
