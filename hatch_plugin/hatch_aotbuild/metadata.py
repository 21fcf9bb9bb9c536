"""The metadata hook: says what a wheel requires without compiling anything.

The requirements follow from the manifest and its toolchains. An installer that asks for metadata
alone (uv, `pip lock`) gets those of the finished wheel.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from hatchling.metadata.core import ProjectMetadata
from hatchling.metadata.plugin.interface import MetadataHookInterface
from hatchling.plugin.manager import PluginManager

from aotbuild.build.plan import make_plan
from aotbuild.build.requirements import wheel_requirements
from aotbuild.errors import AotbuildError
from aotbuild.manifest import load_manifest
from aotbuild.toolchains.environments import find_environment
from aotbuild.toolchains.toolchain import running_toolchain
from aotbuild.toolchains.wanted import own_dependencies, project_requirements
from hatch_aotbuild.options import NAME, check_dynamic, read_options, wheel_table


class AotBuildMetadataHook(MetadataHookInterface):
    """Hatchling's metadata hook `aotbuild`: sets `dependencies`."""

    PLUGIN_NAME = NAME

    def update(self, metadata: dict[str, Any]) -> None:
        """Add the project's own dependencies, and what the executables require.

        Nothing is added where no jax is installed and the manifest names none: a source
        distribution is made there, and its metadata says that its dependencies are dynamic.
        """
        try:
            own = own_dependencies(self.config)
            needed = self._requirements()
        except (AotbuildError, ValueError) as err:
            sys.exit(f"aotbuild: {err}")
        if needed is not None and "dependencies" in metadata.get("dynamic", []):
            metadata["dependencies"] = [*metadata.get("dependencies", []), *own, *needed]

    def _requirements(self) -> list[str] | None:
        project = ProjectMetadata(self.root, PluginManager())
        check_dynamic(project.config["project"], project.hatch)
        options = read_options(wheel_table(project.hatch))
        manifest = load_manifest(Path(self.root) / options.manifest)
        if not manifest.toolchains and running_toolchain(needed=False) is None:
            return None
        environment = find_environment(manifest, project_requirements(Path(self.root)), _say)
        return wheel_requirements(make_plan(manifest, environment))


def _say(line: str) -> None:
    sys.stderr.write(f"aotbuild: {line}\n")
