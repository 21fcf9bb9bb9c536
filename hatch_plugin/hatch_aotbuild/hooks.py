"""Registers the hooks with hatchling (entry point group `hatch`).

hatchling asks for them in every environment that has aotbuild, also for other projects. So they are
imported late, and import what aotbuild's extra `build` brings only where a project uses them.
"""

from __future__ import annotations

from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface
from hatchling.plugin import hookimpl


@hookimpl
def hatch_register_build_hook() -> type[BuildHookInterface[Any]]:
    """Return the build hook's class, as hatchling's plugin manager asks for it."""
    from hatch_aotbuild.plugin import AotBuildHook

    return AotBuildHook


@hookimpl
def hatch_register_metadata_hook() -> type[MetadataHookInterface]:
    """Return the metadata hook's class, as hatchling's plugin manager asks for it."""
    from hatch_aotbuild.metadata import AotBuildMetadataHook

    return AotBuildMetadataHook
