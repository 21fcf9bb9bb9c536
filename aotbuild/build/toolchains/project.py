"""The dependencies of a project, as its pyproject.toml states them."""

from __future__ import annotations

from pathlib import Path

from aotbuild.errors import PlanError


def project_requirements(root: Path) -> tuple[str, ...]:
    """Return the dependencies of the project in a folder; none without a [project] table.

    Dynamic ones are found where hatchling's metadata hooks set them. PlanError if the file is not
    what it should be.
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
        return tuple(map(str, metadata.core.dependencies))
    except (ValueError, TypeError, OSError) as err:
        msg = f"{file}: the project's dependencies cannot be read: {err}"
        raise PlanError(msg) from err
