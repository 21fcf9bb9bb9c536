"""The build backend of a project: hatchling's, whose metadata is known without a build.

hatchling has no `prepare_metadata_for_build_…` under pip, and uv does not call it where
dependencies are dynamic: a build hook could still change them, so both compile a whole wheel to
read its metadata. The hook of this package does not change them (`hatch_aotbuild.metadata`).

Source distributions leave out what `aotbuild build` wrote into the project, and what it left there
if it was killed. A wheel has none of that which is older than its sources.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from hatchling import build as hatchling
from hatchling.build import (
    build_editable,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    get_requires_for_build_wheel,
)
from hatchling.builders.constants import EDITABLES_REQUIREMENT
from hatchling.builders.sdist import SdistBuilder
from hatchling.builders.wheel import WheelBuilder

from aotbuild.errors import AotbuildError
from aotbuild.format.index import FOLDER_NAME
from aotbuild.format.layout import stages_path
from aotbuild.format.temporary import NAMES
from hatch_aotbuild.edited import removed_on_error
from hatch_aotbuild.shipped import leave_out
from hatch_aotbuild.stale import checked, refuse_stale

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]


# Executables are for one machine and one jaxlib: each wheel makes its own.
_BUILT = (f"{FOLDER_NAME}/", stages_path(Path(FOLDER_NAME)).name, "/build/aot/", NAMES)


def build_sdist(
    sdist_directory: str,
    config_settings: dict[str, Any] | None = None,  # noqa: ARG001 (the signature is PEP 517's)
) -> str:
    """Make a source distribution, and return its name (PEP 517)."""
    builder = SdistBuilder(str(Path.cwd()))
    leave_out(builder.config, _BUILT)
    return Path(next(builder.build(directory=sdist_directory, versions=["standard"]))).name


def build_wheel(
    wheel_directory: str,
    config_settings: dict[str, Any] | None = None,
    metadata_directory: str | None = None,
) -> str:
    """Make a wheel, and return its name (PEP 517).

    The hook may be switched off: then what an earlier build left in the project is looked at here.
    """
    name = hatchling.build_wheel(wheel_directory, config_settings, metadata_directory)
    wheel = Path(wheel_directory, name)
    if wheel.resolve() not in checked:
        try:
            with removed_on_error(wheel):
                refuse_stale(wheel, Path.cwd())
        except AotbuildError as err:
            sys.exit(f"aotbuild: {err}")
    return name


def prepare_metadata_for_build_wheel(
    metadata_directory: str,
    config_settings: dict[str, Any] | None = None,  # noqa: ARG001 (the signature is PEP 517's)
) -> str:
    """Write METADATA, and return the name of the .dist-info folder (PEP 517)."""
    return _write_metadata(metadata_directory, [])


def prepare_metadata_for_build_editable(
    metadata_directory: str,
    config_settings: dict[str, Any] | None = None,  # noqa: ARG001 (the signature is PEP 660's)
) -> str:
    """Write METADATA of an editable install, and return the name of its folder (PEP 660)."""
    return _write_metadata(metadata_directory, [EDITABLES_REQUIREMENT])


def _write_metadata(place: str, editables: list[str]) -> str:
    builder = WheelBuilder(str(Path.cwd()))
    config = builder.config
    # As hatchling does for editable wheels.
    extra = editables if config.dev_mode_exact and not config.dev_mode_dirs else []
    text = config.core_metadata_constructor(builder.metadata, extra_dependencies=extra)
    folder = Path(place, f"{builder.artifact_project_id}.dist-info")
    folder.mkdir(exist_ok=True)
    (folder / "METADATA").write_text(text, encoding="utf-8")
    return folder.name
