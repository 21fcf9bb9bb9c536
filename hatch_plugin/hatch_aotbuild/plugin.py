"""The build hook: compiles the manifest into a temporary folder and adds that to the wheel.

hatchling imports this file in every environment that has aotbuild. What aotbuild's extra `build`
brings is therefore imported in functions, which only projects with the hook call.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

from aotbuild.build.interrupts import end_on_signals
from aotbuild.errors import AotbuildError, ManifestError, PlanError
from aotbuild.format.dist_info import installed_version
from aotbuild.format.index import EDITABLE, FOLDER_NAME, INDEX_NAME, write_index
from aotbuild.format.layout import PYPI_LIMIT
from aotbuild.format.signature import Function
from aotbuild.format.temporary import NAMES, temporary_folder
from aotbuild.format.words import os_error_text, plural
from aotbuild.toolchains.project import BUILD_TABLE
from hatch_aotbuild.backend import leave_out

if TYPE_CHECKING:
    from aotbuild.manifest import Manifest

NAME = "aotbuild"
MANIFEST = "AOTBUILD_MANIFEST"
_DEFAULT_MANIFEST = "aot.yaml"
# Keys that hatchling defines for every hook.
_HATCHLING = {
    "dependencies",
    "enable-by-default",
    "require-runtime-dependencies",
    "require-runtime-features",
    "path",
}


class AotBuildHook(BuildHookInterface[Any]):
    """Hatchling's build hook `aotbuild`."""

    PLUGIN_NAME = NAME

    def dependencies(self) -> list[str]:
        """Return what the build environment needs: the project's dependencies and its jax.

        Nothing for a manifest with problems, which `initialize` reports.
        """
        if self.target_name != "wheel":
            return []
        with self._abort_on_error():
            from aotbuild.build.wheel_metadata import build_requirements
            from aotbuild.manifest import load_manifest
            from aotbuild.toolchains.project import project_requirements

            try:
                manifest = load_manifest(self._manifest)
            except ManifestError:
                return []
            return build_requirements(manifest, project_requirements(Path(self.root)))

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile the manifest and add the `_aot` folder to the wheel; `build_data` changes last.

        An editable install gets an index without executables, or none if the manifest has problems.
        """
        if self.target_name != "wheel":
            return
        with self._abort_on_error():
            if version == "editable":
                self._add_editable_index(build_data)
            else:
                self._add_executables(build_data)

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Warn about a wheel that PyPI would not take."""
        if self.target_name == "wheel" and version != "editable":
            wheel = Path(artifact_path)
            if note := _size_note(wheel.stat().st_size, wheel.name):
                self.app.display_warning(f"aotbuild: {note}")
        self._end()

    def _add_editable_index(self, build_data: dict[str, Any]) -> None:
        from aotbuild.build.project import find_sources
        from aotbuild.manifest import load_manifest

        try:
            manifest = load_manifest(self._manifest)
        except ManifestError as err:
            # As `init` leaves it. `uv run` installs the project before it runs `aotbuild plan`.
            self.app.display_warning(f"aotbuild: {err}\nUntil then, load() finds nothing here.")
            return
        sources = find_sources(Path(self.root), manifest.package, self._packages)
        self._artifacts.mkdir()
        (self._artifacts / INDEX_NAME).write_bytes(editable_index(manifest))
        self._say("editable install: nothing is compiled, calls go to the source by jit")
        build_data["force_include_editable"][str(self._artifacts)] = sources.artifacts

    def _add_executables(self, build_data: dict[str, Any]) -> None:
        from aotbuild.build.pack import build_project
        from aotbuild.build.project import open_project
        from aotbuild.build.wheel_metadata import tag_for_all, wheel_requirements, wheel_tag
        from hatch_aotbuild.metadata import check_stated, unpinned

        project = open_project(self._manifest, Path(self.root), self._say, packages=self._packages)
        needed = wheel_requirements(project.plan)
        aotbuild = project.plan.environment.aotbuild
        check_stated(needed, self.metadata.core.dependencies, aotbuild)
        if not project.is_pinned and project.plan.native:
            raise unpinned(needed)
        tag = wheel_tag(project.plan)
        count = plural(len(project.plan.units), "unit")
        self._say(f"{count}, {'; '.join(map(str, project.plan.environment.toolchains))}")
        package = build_project(project, self._artifacts, self._say)
        for line in package.summary:
            self._say(line)
        for note in package.notes:
            self.app.display_warning(f"aotbuild: {note}")
        # What `aotbuild build --in-place` wrote among the sources gives way to this build.
        written = project.sources.below(project.sources.import_root / project.sources.artifacts)
        if written is not None:
            leave_out(self.build_config, (f"/{written}", NAMES))
        infer = self.build_config.builder.get_best_matching_tag
        build_data["tag"] = tag_for_all(tag, build_data, infer)
        build_data["pure_python"] = False
        build_data["force_include"][str(self._artifacts)] = project.sources.artifacts

    @contextmanager
    def _abort_on_error(self) -> Iterator[None]:
        """End the build with the message of an aotbuild error, without a traceback."""
        try:
            yield
        except BaseException as err:
            self._end()  # hatchling calls no `finalize` after an error
            if message := message_of(err):
                self.app.abort(message)
            raise

    def _say(self, line: str) -> None:
        self.app.display_info(f"aotbuild: {line}")

    @property
    def _manifest(self) -> Path:
        return Path(self.root) / read_manifest(self.config)

    @property
    def _packages(self) -> tuple[str, ...]:
        """The folders that hatchling's packages are in, by `packages` or by `sources`."""
        found = [str(Path(path).parent) for path in self.build_config.packages]
        for source, packed in self.build_config.sources.items():
            if source.endswith(packed):
                found.append(source.removesuffix(packed).rstrip("/") or ".")
        return tuple(dict.fromkeys(found))

    @cached_property
    def _artifacts(self) -> Path:
        """Where the `_aot` folder is made; it is there until hatchling has packed the wheel."""
        self._files.callback(end_on_signals())
        # The next build removes what a killed one leaves.
        return self._files.enter_context(temporary_folder(what="hook-")) / FOLDER_NAME

    @cached_property
    def _files(self) -> ExitStack:
        files = ExitStack()
        # After Ctrl-C while it packs, hatchling calls no `finalize`.
        weakref.finalize(self, files.close)
        return files

    def _end(self) -> None:
        """Remove the temporary folder and forget it: another version of the wheel has its own."""
        self._files.close()
        for name in ("_files", "_artifacts"):
            vars(self).pop(name, None)


def _size_note(size: int, name: str) -> str:
    """Return a note about a wheel of that many bytes; empty if PyPI takes it."""
    if size <= PYPI_LIMIT:
        return ""
    return (
        f"{name} has {size / 1e6:.0f} MB; PyPI's default limit for one file is 100 MB. "
        "`aotbuild split` makes a base wheel and one for each family of targets, and "
        "`constants: hoist` stores large constants once"
    )


def read_manifest(table: Mapping[str, Any]) -> str:
    """Return the manifest that the hook's table names; PlanError for an unknown key.

    AOTBUILD_MANIFEST in the environment overrides it.
    """
    unknown = sorted(set(table) - {"manifest"} - _HATCHLING)
    if unknown:
        msg = f"[{BUILD_TABLE}]: unknown key {unknown[0]!r}; known: manifest"
        raise PlanError(msg)
    found = os.environ.get(MANIFEST) or table.get("manifest", _DEFAULT_MANIFEST)
    if not isinstance(found, str) or "\0" in found:
        msg = f"[{BUILD_TABLE}]: manifest: expected a path, found {found!r}"
        raise PlanError(msg)
    return found


def message_of(error: BaseException) -> str:
    """Return what a failed build says, without a traceback; empty for an unexpected error."""
    if isinstance(error, AotbuildError):
        return f"aotbuild: {error}"
    if isinstance(error, OSError) and error.filename is not None:
        return f"aotbuild: {os_error_text(error)}"
    if isinstance(error, ModuleNotFoundError):
        return (
            f"aotbuild: a build needs {error.name}, which is not installed\n"
            '  expected requires = ["hatchling", "aotbuild[build]"] under [build-system]\n'
            "  found    aotbuild without its extra `build`\n"
            "Add the extra. Without build isolation, install aotbuild[build] in this environment."
        )
    return ""


def editable_index(manifest: Manifest) -> bytes:
    """Return the bytes of an index without records, for an editable install.

    The runtime finds it where a wheel's index would be, and calls the sources by jit; the header
    says what jit has to be told.
    """
    functions = [
        Function(name, function.call, (), (), (), (), wrap=function.wrap or "")
        for name, function in manifest.functions.items()
    ]
    options = {
        name: {
            "static_argnums": [key for key in statics if isinstance(key, int)],
            "static_argnames": [key for key in statics if isinstance(key, str)],
        }
        for name, function in manifest.functions.items()
        for statics in [function.parameters.statics]
    }
    header = {
        "aotbuild": installed_version("aotbuild") or "",
        "fallback": "jit",
        "jax": "",
        "jaxlib": "",
        "package": manifest.package,
        EDITABLE: options,
    }
    return write_index(header, functions, [])
