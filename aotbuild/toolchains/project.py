"""What a project itself requires, as its pyproject.toml and its metadata hooks say."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from aotbuild.errors import PlanError
from aotbuild.format.files import open_regular

_OWN = "aotbuild"
_DYNAMIC = "dependencies"
# What hooks see as the version where none is worked out: no version of anybody.
_NO_VERSION = "0+not.worked.out"
# The table of pyproject.toml in which a project lists its own dependencies.
METADATA_TABLE = f"tool.hatch.metadata.hooks.{_OWN}"
# The table of the build hook.
BUILD_TABLE = f"tool.hatch.build.targets.wheel.hooks.{_OWN}"


def project_requirements(
    root: Path, *, run_code: bool = True, shipped: bool = False
) -> tuple[str, ...]:
    """Return the project's own dependencies; none without a [project] table.

    They stand under [project] or in the table of the metadata hook `aotbuild`, or other metadata
    hooks of hatchling set them. Those that only the build needs stand in the table of the build
    hook, where hatchling reads them, too; the wheel requires the others alone, which are `shipped`.
    PlanError if the file cannot be read so, or if only code of the project could say them and it
    must not run.
    """
    # Not at the top: a worker, which imports this package too, has no hatchling.
    from hatchling.metadata.core import ProjectMetadata
    from hatchling.plugin.manager import PluginManager

    file = root / "pyproject.toml"
    if not os.path.lexists(file):
        return ()
    metadata = ProjectMetadata(str(root), PluginManager())
    try:
        open_regular(file).close()  # hatchling would wait for the writer of a pipe
        if "project" not in metadata.config:
            return ()
        settings = metadata.hatch.metadata
        table = settings.hook_config.get(_OWN, {})
        if _DYNAMIC not in metadata.dynamic:
            settings.hook_config.clear()  # they set something else
        elif not run_code:
            _check_runs_nothing(file, metadata)
        if not run_code:
            _leave_out_version(metadata)
        # What it adds is known only when the environment is.
        settings.hooks.pop(_OWN, None)
        own = (*map(str, metadata.core.dependencies), *own_dependencies(table))
        return own if shipped else (*own, *_of_the_build(metadata.hatch))
    except (ValueError, TypeError, OSError) as err:
        reason = err.strerror if isinstance(err, OSError) else err
        msg = f"{file}: the project's dependencies cannot be read: {reason}"
        raise PlanError(msg) from err


def _of_the_build(hatch: Any) -> list[str]:
    """Return the `dependencies` in the table of the build hook."""
    tables = (hatch.build_targets.get("wheel", {}), hatch.build_config)
    hooks = (table.get("hooks", {}).get(_OWN, {}) for table in tables)
    return [str(text) for hook in hooks for text in hook.get("dependencies", [])]


def _check_runs_nothing(file: Path, metadata: Any) -> None:
    """Raise PlanError if reading the dependencies would run a file of the project."""
    if "custom" not in metadata.hatch.metadata.hook_config:
        return
    found = f"[{METADATA_TABLE.removesuffix(_OWN)}custom]"
    msg = (
        f"{file}: {found} runs code of the project to say its dependencies, and no plan runs any; "
        f"list them under [project], or in [{METADATA_TABLE}]"
    )
    raise PlanError(msg)


def _leave_out_version(metadata: Any) -> None:
    """Have hatchling work out no version before it runs hooks; they see a fixed one.

    Some sources run a file of the project (`code`) or a command that it names (`vcs`), also as the
    `base` of others. Which do, only each plugin knows; and dependencies need no version.
    """
    metadata.hatch.config.pop("version", None)
    if "version" in metadata.dynamic:
        metadata.core_raw_metadata.setdefault("version", _NO_VERSION)


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
