"""What `plan` and `build` share: options, the plan as data, which folder is replaced."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aotbuild.cli.command import UsageError, argument, existing_folder
from aotbuild.format.files import open_regular
from aotbuild.format.index import INDEX_NAME, MAGIC
from aotbuild.format.layout import BLOBS

if TYPE_CHECKING:
    from aotbuild.build.plan import BuildUnit
    from aotbuild.build.project import Project
    from aotbuild.toolchains.toolchain import Toolchain

# The name of a blob: its digest and its kind.
_BLOB = re.compile("[0-9a-f]{64}[.][0-9a-z]+")


PROJECT = (
    argument("manifest", nargs="?", type=Path, default=Path("aot.yaml"), metavar="MANIFEST"),
    argument(
        "--root",
        type=existing_folder,
        metavar="DIR",
        help="The project's folder; the package is in it or in its src/. "
        "Default: the manifest's folder.",
    ),
)


def plan_document(project: Project) -> dict[str, Any]:
    """Return the plan as data."""
    plan = project.plan
    environment = plan.environment
    return {
        "manifest": {"file": plan.manifest.file, "sha256": plan.manifest.digest},
        "package": plan.manifest.package,
        "toolchains": [toolchain_document(t) for t in environment.toolchains],
        "host": {"architecture": environment.architecture, "isa": environment.isa},
        "units": [unit_document(unit) for unit in plan.units],
    }


def toolchain_document(toolchain: Toolchain) -> dict[str, Any]:
    """Return a toolchain as data."""
    recipe = toolchain.recipe
    return {
        "jax": toolchain.jax,
        "jaxlib": toolchain.jaxlib,
        "python": toolchain.python,
        "plugins": dict(toolchain.plugins),
        "made_by": "uv" if recipe else None,
        "lock": recipe.file.name if recipe and recipe.file else None,
    }


def unit_document(unit: BuildUnit) -> dict[str, Any]:
    """Return a unit as data; static values are encoded as in the index."""
    from aotbuild.format.values import encode
    from aotbuild.platforms.building import description

    return {
        "label": str(unit),
        "function": unit.name,
        "dims": dict(unit.row),
        "statics": {str(name): encode(value) for name, value in unit.statics},
        "pad": {dim.name: encode(dim.value) for dim in unit.function.padded_dims},
        "target": str(unit.target),
        "details": dict(description(unit.target.platform).details(unit.hardware)),
        "devices": unit.devices,
        "jaxlib": unit.toolchain.jaxlib,
    }


def _is_of_a_build(folder: Path) -> bool:
    """Return whether a folder is empty, or has what a build writes and nothing else."""
    names, blobs = {path.name for path in folder.iterdir()}, folder / BLOBS
    if not names:
        return True
    if not _is_package(folder) or names - {INDEX_NAME, BLOBS}:
        return False
    if BLOBS in names and (blobs.is_symlink() or not blobs.is_dir()):
        return False
    files = blobs.iterdir() if BLOBS in names else ()
    return all(_BLOB.fullmatch(file.name) for file in files)


def _is_package(folder: Path) -> bool:
    """Return whether a folder has an index that aotbuild wrote, of any version."""
    try:
        with open_regular(folder / INDEX_NAME) as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError:  # there is none, or it is a folder
        return False


def check_replaceable(folder: Path) -> None:
    """Refuse to replace a folder that holds anything but the results of an earlier build.

    A folder inside of a package is refused, too: all files of a package are in its index.
    """
    if folder.exists() and not _is_of_a_build(folder):
        msg = f"{folder} would be replaced, but it is not an _aot folder; name another, or empty it"
        raise UsageError(msg, "--out")
    if package := next(filter(_is_package, Path(os.path.realpath(folder)).parents), None):
        msg = f"{folder} is inside of a package, {package}, and would damage it; name another"
        raise UsageError(msg, "--out")
    if not folder.name:
        msg = f"{folder} is the current folder, and cannot be replaced; name another"
        raise UsageError(msg, "--out")
