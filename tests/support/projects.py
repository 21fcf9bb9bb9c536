"""Builds projects the way the hook does."""

from __future__ import annotations

import re
import shutil
import sys
from importlib import metadata
from pathlib import Path

import pytest
import yaml

from aotbuild.build.pack import Package, build_package
from aotbuild.build.plan import make_plan
from aotbuild.build.progress import UnitDone, ignore
from aotbuild.build.project import find_sources
from aotbuild.build.run_units import BuildOptions, run_units
from aotbuild.errors import BuildError
from aotbuild.manifest import load_manifest
from aotbuild.toolchains.toolchain import probe
from support.processes import TESTS

PACKAGES = TESTS / "packages"
MANIFEST = "aot.yaml"
# Of package `proj`, with one function in `proj/code.py`.
ONE_FUNCTION = """\
version: 1
package: proj
functions:
  f:
    call: proj.code:f
    args: [x: "f32[2]"]
"""
# The project of package `proj`; what follows it belongs to its table.
PROJECT = """\
[build-system]
requires = ["hatchling", "aotbuild[build]"]
build-backend = "hatch_aotbuild.backend"

[project]
name = "proj"
version = "1"
"""
# The same, built by the hook; what follows it belongs to the hook's table.
PYPROJECT = f"""{PROJECT}\
dynamic = ["dependencies"]

[tool.hatch.metadata.hooks.aotbuild]
dependencies = ["jax==@"]

[tool.hatch.build.targets.wheel]
packages = ["proj"]

[tool.hatch.build.targets.wheel.hooks.aotbuild]
""".replace("@", metadata.version("jax"))


def write_project(root: Path, manifest: str, **modules: str) -> Path:
    """Write package `proj` with the given modules and manifest below `root`."""
    package = root / "proj"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    for name, source in modules.items():
        (package / f"{name}.py").write_text(source, encoding="utf-8")
    (root / MANIFEST).write_text(manifest, encoding="utf-8")
    return root


def in_each(manifest: str, options: str) -> str:
    """Return a manifest whose functions have these options, unless they set them."""
    read = yaml.safe_load(manifest)
    functions = read["functions"]
    for name, function in functions.items():
        functions[name] = {**yaml.safe_load(f"{{{options}}}"), **function}
    return yaml.safe_dump(read, sort_keys=False)


def imported_modules() -> list[str]:
    """Return the modules of a package `proj` that this process has imported."""
    return [name for name in sys.modules if name.partition(".")[0] == "proj"]


def copy_project(name: str | Path, to: Path, jax: str = metadata.version("jax")) -> Path:
    """Copy a project that one version of jax compiles, with that pinned; return its root.

    `name` is a path below `PACKAGES`, or any other.
    """
    ignored = shutil.ignore_patterns("__pycache__", ".*_cache")
    root = Path(shutil.copytree(PACKAGES / name, to / Path(name).name, ignore=ignored))
    manifest, pyproject = root / MANIFEST, root / "pyproject.toml"
    text = manifest.read_text() if manifest.exists() else ""
    named = re.sub(r"(?m)^(toolchains: \[\{jax:) [0-9.]+\}\]", rf"\1 {jax}}}]", text)
    if named != text:
        manifest.write_text(named)
    elif pyproject.exists() and not re.search(r"(?m)^toolchains:", text):
        table = r"(\n\[tool.hatch.metadata.hooks.aotbuild\]\n(?:#.*\n)?dependencies = \[)"
        pinned = re.sub(table, rf'\1"jax=={jax}", ', pyproject.read_text())
        pyproject.write_text(pinned)
    return root


def build(root: Path, folder: Path | None = None) -> Package:
    """Build a project's manifest into `folder` (default: into its package)."""
    manifest = load_manifest(root / MANIFEST)
    sources = find_sources(root, manifest.package)
    place = folder or sources.import_root / manifest.package / "_aot"
    return build_package(make_plan(manifest, probe()), sources, place)


def run_project(root: Path, jobs: int | None = None) -> list[UnitDone]:
    """Run every unit of a project, and put blobs into a folder in it; nothing is packaged."""
    manifest = load_manifest(root / MANIFEST)
    blobs = root / "blobs-here"
    blobs.mkdir()
    plan, sources = make_plan(manifest, probe()), find_sources(root, manifest.package)
    return run_units(plan, sources, blobs, ignore, BuildOptions(jobs=jobs)).results


def results_of(root: Path) -> dict[str, UnitDone]:
    """Run every unit of a project; return the last result of each function."""
    return {result.unit.name: result for result in run_project(root)}


def place_of_mark(root: Path, part: str) -> str:
    """Return the `file:line` of a project that `@name` stands for, or the part itself."""
    if not part.startswith("@"):
        return part
    for path in sorted((root / "proj").glob("*.py")):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if line.split("  # noqa")[0].endswith(f"# {part}"):
                return f"{path}:{number}"
    pytest.fail(f"no line is marked {part}")


def failed_units(root: Path) -> dict[str, str]:
    """Build a project that cannot be built; return the message of each function's failure."""
    with pytest.raises(BuildError) as caught:
        build(root)
    return {failure.unit.partition("(")[0]: failure.message for failure in caught.value.failures}
