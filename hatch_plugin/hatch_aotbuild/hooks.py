"""Registers the hooks with hatchling (entry point group `hatch`)."""

from __future__ import annotations

from hatchling.plugin import hookimpl

from hatch_aotbuild.metadata import AotBuildMetadataHook
from hatch_aotbuild.plugin import AotBuildHook


@hookimpl
def hatch_register_build_hook() -> type[AotBuildHook]:
    """Return the build hook's class, as hatchling's plugin manager asks for it."""
    return AotBuildHook


@hookimpl
def hatch_register_metadata_hook() -> type[AotBuildMetadataHook]:
    """Return the metadata hook's class, as hatchling's plugin manager asks for it."""
    return AotBuildMetadataHook
