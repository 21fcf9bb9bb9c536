"""The build backend of a project: hatchling's, whose metadata is known without a build.

hatchling has no `prepare_metadata_for_build_…` under pip, and uv does not call it where
dependencies are dynamic: a build hook could still change them, so both compile a whole wheel to
read its metadata. The hook of this package does not change them (`hatch_aotbuild.metadata`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.build import (
    build_editable,
    build_sdist,
    build_wheel,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    get_requires_for_build_wheel,
)
from hatchling.builders.wheel import WheelBuilder

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


def prepare_metadata_for_build_wheel(
    metadata_directory: str, config_settings: dict[str, Any] | None = None
) -> str:
    """Write METADATA, and return the name of the .dist-info folder (PEP 517)."""
    builder = WheelBuilder(str(Path.cwd()))
    folder = Path(metadata_directory, f"{builder.artifact_project_id}.dist-info")
    folder.mkdir(exist_ok=True)
    text = builder.config.core_metadata_constructor(builder.metadata)
    (folder / "METADATA").write_text(text, encoding="utf-8")
    return folder.name


# An editable wheel has the same metadata (PEP 660). hatchling itself adds to it only for projects
# that ask for exact editable installs (`dev-mode-exact`).
prepare_metadata_for_build_editable = prepare_metadata_for_build_wheel
