"""Code in fresh processes, which have nothing of the shell's settings for jax and aotbuild."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parents[1]
ROOT = TESTS.parent


def clean_environment(**env: str) -> dict[str, str]:
    """Return this process's variables without those of jax, XLA and aotbuild, and others."""
    dropped = ("JAX_", "XLA_", "AOTBUILD_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(dropped)}
    return {**kept, "JAX_PLATFORMS": "cpu", **env}


def run_fresh(
    code: str,
    *arguments: str,
    devices: int = 1,
    path: Path | None = None,
    check: bool = True,
    **env: str,
) -> subprocess.CompletedProcess[str]:
    """Run code with `sys.argv[1:]` and so many CPU devices; show its stderr if it fails.

    It imports from `path`, and begins there.
    """
    places = [*([str(path)] if path else []), str(TESTS), str(ROOT)]
    flags = f"--xla_force_host_platform_device_count={devices}"
    done = subprocess.run(
        [sys.executable, "-W", "error::UserWarning", "-c", code, *arguments],
        capture_output=True,
        text=True,
        env=clean_environment(PYTHONPATH=os.pathsep.join(places), XLA_FLAGS=flags, **env),
        cwd=path,
        timeout=300,
    )
    if check:
        assert done.returncode == 0, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done


def fresh(code: str, *arguments: str, **options: Any) -> Any:
    """Run code as `run_fresh` does; return the JSON of its last line."""
    return json.loads(run_fresh(code, *arguments, **options).stdout.splitlines()[-1])
