"""What a project itself requires, as its pyproject.toml and its metadata hooks say."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from aotbuild.errors import PlanError

_OWN = "aotbuild"
# The table of pyproject.toml in which a project lists its own dependencies.
METADATA_TABLE = f"tool.hatch.metadata.hooks.{_OWN}"


def project_requirements(root: Path) -> tuple[str, ...]:
    """Return the project's own dependencies; none without a [project] table.

    They stand under [project] or in the table of the metadata hook `aotbuild`, or other metadata
    hooks of hatchling set them. PlanError if the file cannot be read so.
    """
    # Not at the top: a worker, which imports this package too, has no hatchling.
    from hatchling.metadata.core import ProjectMetadata
    from hatchling.plugin.manager import PluginManager

    file = root / "pyproject.toml"
    if not file.is_file():
        return ()
    metadata = ProjectMetadata(str(root), PluginManager())
    try:
        if "project" not in metadata.config:
            return ()
        settings = metadata.hatch.metadata
        table = settings.hook_config.get(_OWN, {})
        # What it adds is known only when the environment is.
        settings.hooks.pop(_OWN, None)
        return (*map(str, metadata.core.dependencies), *own_dependencies(table))
    except (ValueError, TypeError, OSError) as err:
        msg = f"{file}: the project's dependencies cannot be read: {err}"
        raise PlanError(msg) from err


def own_dependencies(table: Mapping[str, Any]) -> list[str]:
    """Return what the table of the metadata hook `aotbuild` lists; ValueError for anything else."""
    for key in table:
        if key != "dependencies":
            msg = f"[{METADATA_TABLE}]: unknown key {key!r}; known: dependencies"
            raise ValueError(msg)
    found = table.get("dependencies", [])
    if not isinstance(found, list) or not all(isinstance(text, str) for text in found):
        msg = f"[{METADATA_TABLE}]: dependencies: expected a list of requirements, found {found!r}"
        raise ValueError(msg)
    return list(found)
