"""Registers the build hook with hatchling (entry point group `hatch`)."""

from __future__ import annotations

from hatchling.plugin import hookimpl

from hatch_aotbuild.plugin import AotBuildHook


@hookimpl
def hatch_register_build_hook() -> type[AotBuildHook]:
    """Return the hook's class, as hatchling's plugin manager asks for it."""
    return AotBuildHook
