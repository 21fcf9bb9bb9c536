"""Registers the hooks with hatchling (entry point group `hatch`).

hatchling asks for them in every environment that has aotbuild, also for other projects. So they are
imported late, and what they lack is an error only where a project uses them.
"""

from __future__ import annotations

import sys
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface
from hatchling.plugin import hookimpl
from hatchling.version.source.plugin.interface import VersionSourceInterface


@hookimpl
def hatch_register_build_hook() -> type[BuildHookInterface[Any]]:
    """Return the build hook's class, as hatchling's plugin manager asks for it."""
    try:
        from hatch_aotbuild.plugin import AotBuildHook
    except ModuleNotFoundError as err:
        return _needs_extra(BuildHookInterface, err)
    return AotBuildHook


@hookimpl
def hatch_register_metadata_hook() -> type[MetadataHookInterface]:
    """Return the metadata hook's class, as hatchling's plugin manager asks for it."""
    try:
        from hatch_aotbuild.metadata import AotBuildMetadataHook
    except ModuleNotFoundError as err:
        return _needs_extra(MetadataHookInterface, err)
    return AotBuildMetadataHook


@hookimpl
def hatch_register_version_source() -> type[VersionSourceInterface]:
    """Return the version source's class, as hatchling's plugin manager asks for it."""
    try:
        from hatch_aotbuild.version import AotBuildVersionSource
    except ModuleNotFoundError as err:
        return _needs_extra(VersionSourceInterface, err)
    return AotBuildVersionSource


def _needs_extra(interface: Any, missing: ModuleNotFoundError) -> type[Any]:
    """Return a hook that ends the build of a project that uses it, and says what is missing."""
    message = (
        f"aotbuild: a build needs {missing.name}, which is not installed\n"
        '  expected requires = ["hatchling", "aotbuild[build]"] under [build-system]\n'
        "  found    aotbuild without its extra `build`\n"
        "Add the extra. Without build isolation, install aotbuild[build] in this environment."
    )

    class NeedsExtra(interface):  # type: ignore[misc]
        PLUGIN_NAME = "aotbuild"

        def __init__(self, *_: Any, **__: Any) -> None:
            sys.exit(message)

        def update(self, metadata: dict[str, Any]) -> None:
            """Never called; the interface of metadata hooks demands it."""

        def get_version_data(self) -> dict[str, Any]:
            """Never called; the interface of version sources demands it."""
            return {}

    return NeedsExtra
