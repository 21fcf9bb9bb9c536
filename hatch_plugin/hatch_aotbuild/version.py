"""The version source: adds the jax that compiles to the version of a project.

`1.0.0+jax0.12.0.1`: wheels for several versions of jax can stand side by side in one index.
"""

from __future__ import annotations

import re
import sys
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hatchling.metadata.core import ProjectMetadata
from hatchling.plugin.manager import PluginManager
from hatchling.version.source.plugin.interface import VersionSourceInterface

from aotbuild.errors import AotbuildError, PlanError
from aotbuild.toolchains.toolchain import running_toolchain
from hatch_aotbuild.options import NAME, missing_extra, read_options, wheel_table

if TYPE_CHECKING:
    from aotbuild.manifest import Manifest

VERSION_TABLE = "tool.hatch.version"
_KEY = "local-version"


class AotBuildVersionSource(VersionSourceInterface):
    """Hatchling's version source `aotbuild`; another source (`base`) has the public version."""

    PLUGIN_NAME = NAME

    def get_version_data(self) -> dict[str, Any]:
        """Return the version, with the jax of the manifest's toolchain, else the running one.

        Without either it stays as it is: a source distribution is made there.
        """
        try:
            self._check()
            # Not at the top: hatchling imports this file for every project.
            from aotbuild.manifest import load_manifest

            project = ProjectMetadata(self.root, PluginManager())
            options = read_options(wheel_table(project.hatch))
            jax = chosen_jax(load_manifest(Path(self.root) / options.manifest))
        except AotbuildError as err:
            sys.exit(f"aotbuild: {err}")
        except ModuleNotFoundError as err:
            sys.exit(missing_extra(err))
        data = self._base.get_version_data() if self._base else {"version": self.config["version"]}
        return {**data, "version": with_jax(str(data["version"]), jax)}

    def set_version(self, version: str, version_data: dict[str, Any]) -> None:
        """Write the public version where the base source keeps it."""
        if self._base is None:
            sys.exit(f"aotbuild: [{VERSION_TABLE}]: the version stands there; write {version}")
        self._base.set_version(version.partition("+")[0], version_data)

    @cached_property
    def _base(self) -> VersionSourceInterface | None:
        """The source of the public version; None if it stands in the table."""
        if "version" in self.config:
            return None
        name = self.config.get("base", "regex")
        base: Any = PluginManager().version_source.get(name) if name != NAME else None
        return base(self.root, self.config) if base else None

    def _check(self) -> None:
        found = self.config.get(_KEY)
        if found != "jax":
            msg = f'[{VERSION_TABLE}]: {_KEY}: expected "jax", found {found!r}'
            raise PlanError(msg)
        if self._base is None and not isinstance(self.config.get("version"), str):
            known = sorted(PluginManager().version_source.collect().keys() - {NAME})
            msg = (
                f"[{VERSION_TABLE}]: base: expected the name of another version source, one of "
                f"{', '.join(known)}; found {self.config.get('base')!r}\n"
                "If a package has it, list that under build-system.requires."
            )
            raise PlanError(msg)


def chosen_jax(manifest: Manifest) -> str | None:
    """Return the jax that compiles; None if it is not known yet. PlanError for several."""
    pins = [request.jax for request in manifest.toolchains]
    if len(pins) > 1:
        msg = (
            f'{manifest.file}: toolchains: {_KEY} = "jax" expects one, '
            f"found jax {', '.join(pins)}\n"
            "Build a wheel for each, from manifests with one toolchain each (AOTBUILD_MANIFEST), "
            "or one wheel for all of them without a local version."
        )
        raise PlanError(msg)
    running = running_toolchain(needed=False)
    return pins[0] if pins else running.jax if running else None


def with_jax(version: str, jax: str | None) -> str:
    """Return a version whose local part says the jax; unchanged without a jax."""
    if jax is None:
        return version
    local = re.sub("[^a-z0-9]+", ".", jax.lower())
    return f"{version}{'.' if '+' in version else '+'}jax{local}"
