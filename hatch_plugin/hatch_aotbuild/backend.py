"""The build backend: hatchling's, with metadata that needs no build.

hatchling has no `prepare_metadata_for_build_…` under pip, and uv does not call it where
dependencies are dynamic, because a build hook could still change them. Both would compile a whole
wheel to read its metadata. aotbuild's build hook changes no dependencies.

Source distributions leave out the executables that `aotbuild build` wrote into the project.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from hatchling.build import (
    build_editable,
    build_wheel,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    get_requires_for_build_wheel,
)
from hatchling.builders.config import BuilderConfig
from hatchling.builders.constants import EDITABLES_REQUIREMENT
from hatchling.builders.sdist import SdistBuilder
from hatchling.builders.wheel import WheelBuilder
from pathspec import GitIgnoreSpec

from aotbuild.format.index import FOLDER_NAME
from aotbuild.format.temporary import NAMES

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

# Executables are for one jaxlib: each wheel makes its own.
_BUILT = (f"{FOLDER_NAME}/", "/build/aot/")


def build_sdist(
    sdist_directory: str,
    config_settings: dict[str, Any] | None = None,  # noqa: ARG001 (the signature is PEP 517's)
) -> str:
    """Make a source distribution, and return its name (PEP 517)."""
    builder = SdistBuilder(str(Path.cwd()))
    leave_out(builder.config, (*_BUILT, NAMES))
    return Path(next(builder.build(directory=sdist_directory, versions=["standard"]))).name


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


def leave_out(config: BuilderConfig, patterns: Iterable[str]) -> None:
    """Have hatchling ship no file that these git patterns match, whatever else selects it.

    `exclude` would not do: hatchling ships what `artifacts` names even if it is excluded.
    """
    spec, selects = GitIgnoreSpec.from_lines(patterns), config.include_path

    def include_path(relative_path: str, **options: bool) -> bool:
        return not spec.match_file(relative_path) and selects(relative_path, **options)

    config.include_path = include_path  # type: ignore[method-assign]


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
