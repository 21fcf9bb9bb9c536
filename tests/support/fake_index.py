"""A package index in a folder: tiny wheels with the names that toolchains need, and no code.

uv resolves, locks and installs them as it does real ones, in no time and without a network.
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterable
from pathlib import Path
from zipfile import ZipFile

import pytest
from packaging.requirements import Requirement

from aotbuild.platforms.cuda import describe as cuda
from aotbuild.toolchains.wanted import worker_requirements

PYTHON = f"cp{sys.version_info[0]}{sys.version_info[1]}"
OLD, NEW = "0.10.2", "0.12.0.1"


def add_wheel(
    folder: Path,
    name: str,
    version: str,
    requires: Iterable[str] = (),
    python: str = "",
    tag: str = "",
) -> None:
    """Write one wheel; `python` is its Requires-Python."""
    stem = f"{name.replace('-', '_')}-{version}"
    lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
    lines += [f"Requires-Dist: {requirement}" for requirement in requires]
    lines += [f"Requires-Python: {python}"] if python else []
    tag = tag or "py3-none-any"
    with ZipFile(folder / f"{stem}-{tag}.whl", "w") as archive:
        info = f"{stem}.dist-info"
        archive.writestr(f"{info}/METADATA", "\n".join(lines) + "\n")
        archive.writestr(f"{info}/WHEEL", f"Wheel-Version: 1.0\nTag: {tag}\n")
        archive.writestr(f"{info}/RECORD", "")


def add_jax(folder: Path, version: str, python: str = "") -> None:
    """Write a jax, its jaxlib and its plugins."""
    machine = f"{PYTHON}-{PYTHON}-manylinux_2_27_{platform.machine()}"
    add_wheel(folder, "jaxlib", version, tag=machine, python=python)
    extra = f"libtpu==0.{version}; extra == 'tpu'"
    add_wheel(folder, "jax", version, [f"jaxlib=={version}", extra], python=python)
    add_wheel(folder, "libtpu", f"0.{version}")
    for plugin in map(Requirement, cuda.PLATFORM.packages(version)):
        add_wheel(folder, plugin.name, version if plugin.specifier else "13")


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An index with two versions of jax, and toolchains in a folder of this test."""
    return make_index(tmp_path, monkeypatch, (OLD, NEW))


def make_index(place: Path, patch: pytest.MonkeyPatch, versions: Iterable[str]) -> Path:
    """Make an index with versions of jax below a folder; uv sees it alone until `patch` ends."""
    folder = place / "index"
    folder.mkdir()
    for version in versions:
        add_jax(folder, version)
    for requirement in map(Requirement, worker_requirements()):
        add_wheel(folder, requirement.name, "99")
    for name in ("numpy", "einops"):
        add_wheel(folder, name, "13")
    for name, value in {
        "UV_NO_INDEX": "1",
        "UV_OFFLINE": "1",
        "UV_FIND_LINKS": str(folder),
        "UV_CACHE_DIR": str(place / "uv"),
        "UV_NO_CONFIG": "1",
        "AOTBUILD_TOOLCHAINS": str(place / "toolchains"),
    }.items():
        patch.setenv(name, value)
    return folder
