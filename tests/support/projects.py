"""Builds projects the way the hook does, and runs code in fresh processes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from aotbuild.build.pack import Package, build_package
from aotbuild.build.plan import make_plan
from aotbuild.build.sources import find_sources
from aotbuild.manifest import load_manifest
from aotbuild.toolchains.toolchain import probe

ROOT = Path(__file__).parents[2]
PACKAGES = ROOT / "tests" / "packages"
MANIFEST = "aot.yaml"


def write_project(root: Path, manifest: str, **modules: str) -> Path:
    """Write package `proj` with the given modules and manifest below `root`."""
    package = root / "proj"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    for name, source in modules.items():
        (package / f"{name}.py").write_text(source, encoding="utf-8")
    (root / MANIFEST).write_text(manifest, encoding="utf-8")
    return root


def copy_project(name: str, to: Path) -> Path:
    """Copy a fixture project; return its root."""
    ignored = shutil.ignore_patterns("__pycache__", ".*_cache")
    return Path(shutil.copytree(PACKAGES / name, to / Path(name).name, ignore=ignored))


def build(root: Path, folder: Path | None = None) -> Package:
    """Build a project's manifest into `folder` (default: into its package)."""
    manifest = load_manifest(root / MANIFEST)
    sources = find_sources(root, manifest.package)
    place = folder or sources.import_root / manifest.package / "_aot"
    return build_package(make_plan(manifest, probe()), sources, place)


def run_fresh(
    code: str, path: Path, *, devices: int = 1, check: bool = True, **env: str
) -> subprocess.CompletedProcess[str]:
    """Run code in a fresh process that imports from `path`; show its stderr on failure."""
    environment = {
        **{k: v for k, v in os.environ.items() if not k.startswith(("JAX_", "XLA_", "AOTBUILD_"))},
        "PYTHONPATH": os.pathsep.join([str(path), str(ROOT)]),
        "XLA_FLAGS": f"--xla_force_host_platform_device_count={devices}",
        "JAX_PLATFORMS": "cpu",
        **env,
    }
    done = subprocess.run(
        [sys.executable, "-W", "error::UserWarning", "-c", code],
        capture_output=True,
        text=True,
        env=environment,
        cwd=path,
        timeout=300,
    )
    if check:
        assert done.returncode == 0, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done


def fresh_json(code: str, path: Path, **options: Any) -> Any:
    """Run code whose last line of output is JSON, and return that."""
    return json.loads(run_fresh(code, path, **options).stdout.splitlines()[-1])
