"""The metadata hook: says what a wheel requires without compiling anything.

The requirements follow from the manifest and its toolchains. An installer that asks for metadata
alone (uv, `pip lock`) gets those of the finished wheel.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from hatchling.metadata.core import ProjectMetadata
from hatchling.metadata.plugin.interface import MetadataHookInterface
from hatchling.plugin.manager import PluginManager

from aotbuild.build.planned import PlanInputs, front_digests, wheel_needs
from aotbuild.errors import AotbuildError
from aotbuild.toolchains.project import own_dependencies, project_requirements
from hatch_aotbuild.ci import tell_ci
from hatch_aotbuild.options import NAME, check_dynamic, missing_extra, read_options, wheel_table


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
            tell_ci((), err, None, lambda line: sys.stderr.write(f"{line}\n"))
            sys.exit(f"aotbuild: {err}")
        except ModuleNotFoundError as err:
            sys.exit(missing_extra(err))
        if needed is not None and "dependencies" in metadata.get("dynamic", []):
            metadata["dependencies"] = [*metadata.get("dependencies", []), *own, *needed]

    def _requirements(self) -> tuple[str, ...] | None:
        project = ProjectMetadata(self.root, PluginManager())
        check_dynamic(project.config["project"], project.hatch)
        root, options = Path(self.root), read_options(wheel_table(project.hatch))
        manifest, digests = root / options.manifest, front_digests(os.environ)
        inputs = PlanInputs(root, manifest, project_requirements(root), digests)
        return wheel_needs(inputs, os.environ, _say)


def _say(line: str) -> None:
    sys.stderr.write(f"aotbuild: {line}\n")
