"""What a wheel requires: the metadata hook states it, without compiling anything.

The requirements follow from the manifest and its toolchains. An installer that asks for metadata
alone (uv, `pip lock`) gets those of the finished wheel. Where a project states them itself, the
build hook compares.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from hatchling.metadata.core import HatchMetadata, ProjectMetadata
from hatchling.metadata.plugin.interface import MetadataHookInterface
from hatchling.plugin.manager import PluginManager
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from aotbuild.errors import AotbuildError, PlanError
from aotbuild.toolchains.project import (
    BUILD_TABLE,
    METADATA_TABLE,
    own_dependencies,
    project_requirements,
)
from hatch_aotbuild.plugin import NAME, message_of, read_manifest


class AotBuildMetadataHook(MetadataHookInterface):
    """Hatchling's metadata hook `aotbuild`: sets `dependencies` where they are dynamic."""

    PLUGIN_NAME = NAME

    def update(self, metadata: dict[str, Any]) -> None:
        """Add the project's own dependencies, and what the executables require.

        Nothing is added where no jax is installed and the manifest names none: a source
        distribution is made there, and its metadata says that its dependencies are dynamic.
        """
        if "dependencies" not in metadata.get("dynamic", []):
            return
        try:
            own, needed = own_dependencies(self.config), self._requirements()
        except (AotbuildError, ModuleNotFoundError, OSError) as err:
            sys.exit(message_of(err) or f"aotbuild: {err}")
        except ValueError as err:
            sys.exit(f"aotbuild: {err}")
        if needed is not None:
            own = [text for text in own if text not in needed]  # a pin of jax
            metadata["dependencies"] = [*metadata.get("dependencies", []), *own, *needed]

    def _requirements(self) -> list[str] | None:
        from aotbuild.build.plan import make_plan
        from aotbuild.build.wheel_metadata import wheel_requirements
        from aotbuild.manifest import load_manifest
        from aotbuild.toolchains.environments import find_environment
        from aotbuild.toolchains.toolchain import running_toolchain
        from aotbuild.toolchains.wanted import pinned_jax

        root = Path(self.root)
        project = ProjectMetadata(self.root, PluginManager())
        manifest = load_manifest(root / read_manifest(_wheel_table(project.hatch)))
        required = project_requirements(root)
        is_named = manifest.toolchains or pinned_jax(required)
        if not is_named and running_toolchain() is None:
            return None
        environment = find_environment(manifest, required, _say)
        return wheel_requirements(make_plan(manifest, environment))


def _say(line: str) -> None:
    sys.stderr.write(f"aotbuild: {line}\n")


def _wheel_table(hatch: HatchMetadata[Any]) -> Mapping[str, Any]:
    """Return the build hook's table: that of wheels, else that of all targets.

    PlanError without one: the wheel would require jaxlib and have no executables.
    """
    tables = (hatch.build_targets.get("wheel", {}), hatch.build_config)
    for table in tables:
        if NAME in table.get("hooks", {}):
            found: Mapping[str, Any] = table["hooks"][NAME]
            return found
    msg = (
        f"pyproject.toml: the metadata hook {NAME} is there, and the build hook is not\n"
        f"  expected a table [{BUILD_TABLE}]\n  found    none\n"
        "Add it, if only its first line: without it, the wheel has no executables."
    )
    raise PlanError(msg)


def check_stated(needed: Iterable[str], stated: Iterable[str], aotbuild: str) -> None:
    """Raise PlanError if a wheel's metadata lacks what its executables require.

    `needed` are those of `wheel_requirements`, and `aotbuild` is the version that builds. jax and
    jaxlib must be stated exactly so; of the others any version will do that allows the one here.
    """
    found = [*map(Requirement, stated)]
    missing = [
        text
        for text in needed
        if not any(_states(each, Requirement(text), aotbuild) for each in found)
    ]
    if not missing:
        return
    quoted = (text.replace('"', "'") for text in missing)  # in markers, for TOML
    lines = "".join(f'\n    "{text}",' for text in quoted)
    msg = (
        "the wheel's metadata lacks what its executables require\n"
        f"  expected {', '.join(missing)}\n"
        f"  found    {', '.join(sorted(map(str, found))) or 'no dependencies'}\n"
        f"Add to pyproject.toml:\n\n  [project]\n  dependencies = [{lines}\n  ]\n\n"
        "For several versions of jax in one wheel, have the metadata hook state them "
        "(docs/reference/hook.md).\n"
        "A source distribution that another aotbuild or jax made has to be made again."
    )
    raise PlanError(msg)


def unpinned(needed: Iterable[str]) -> PlanError:
    """Return the error of a project that leaves the choice of jax to the build environment."""
    pins = {Requirement(text).name: text for text in needed}
    jax = pins.get("jax", pins["jaxlib"])
    return PlanError(
        "nothing says which jax compiles, so that each release of jax would change this wheel\n"
        f'  expected an exact version, such as "{jax}", which is the one installed here\n'
        f"  found    no such dependency in [{METADATA_TABLE}], and no toolchains: in the manifest\n"
        "Add the dependency; or write all dependencies under [project], which installers read "
        "without a build."
    )


def _states(found: Requirement, needed: Requirement, aotbuild: str) -> bool:
    """Return whether a stated requirement is at least as narrow as a needed one.

    An exact version without a marker is narrower than what a portable form needs elsewhere.
    """
    if canonicalize_name(found.name) != needed.name:
        return False
    if needed.name == "aotbuild":
        return found.specifier.contains(aotbuild, prereleases=True)
    if needed.name in ("jax", "jaxlib"):
        exact = [s.version for s in found.specifier if s.operator == "=="]
        if found.marker is None and len(found.specifier) == 1 and exact and "*" not in exact[0]:
            return needed.specifier.contains(exact[0], prereleases=True)
        return (found.specifier, found.marker) == (needed.specifier, needed.marker)
    return True
