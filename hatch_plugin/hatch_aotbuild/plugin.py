"""The build hook: adapts hatchling to `aotbuild.build`. It changes `build_data` last."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from time import monotonic
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from packaging.requirements import Requirement

from aotbuild.build.pack import Package, build_package, size_note
from aotbuild.build.plan import Plan, make_plan
from aotbuild.build.requirements import build_requirements, wheel_requirements, wheel_tag
from aotbuild.build.sources import SourceTree, find_sources
from aotbuild.cli.progress import summary, tracked
from aotbuild.errors import AotbuildError, PlanError
from aotbuild.manifest import Manifest, load_manifest
from aotbuild.report.sbom import SBOM_LIBRARY, SBOM_NAME, missing_library, sbom_json, timestamp_of
from aotbuild.report.words import plural
from aotbuild.runtime.distribution import Distribution
from aotbuild.runtime.source import DirectorySource
from aotbuild.spec.index import FOLDER_NAME, INDEX_NAME
from aotbuild.spec.layout import stages_path, write_whole
from aotbuild.toolchains.environments import find_environment, make_environments
from aotbuild.toolchains.wanted import project_requirements
from hatch_aotbuild.options import NAME, Options, check_dynamic, read_options
from hatch_aotbuild.version import chosen_jax, with_jax


def check_sbom() -> None:
    """Raise PlanError, before anything is compiled, if this environment cannot make an SBOM."""
    if missing := missing_library():
        msg = f"sbom = true: {missing}"
        raise PlanError(msg)
    try:
        timestamp_of(os.environ)
    except ValueError as err:
        raise PlanError(str(err)) from err


def write_sbom(artifacts: Path, folder: Path, wheel: Distribution) -> None:
    """Write the SBOM of an `_aot` folder into `folder`, under its usual name."""
    data = sbom_json(DirectorySource(artifacts), wheel, timestamp_of(os.environ))
    (folder / SBOM_NAME).write_bytes(data)


VARIABLE = "AOTBUILD_STAGES"
# pip sets this variable for its child processes, and keeps nothing but the wheel.
_PIP = "PIP_BUILD_TRACKER"


def chosen_folder(environment: Mapping[str, str]) -> Path | None:
    """Return the folder that AOTBUILD_STAGES names, if set; PlanError if it is relative."""
    chosen = environment.get(VARIABLE)
    if chosen and not Path(chosen).is_absolute():
        msg = (
            f"the environment variable {VARIABLE}: expected an absolute path, found {chosen!r}; "
            "builds run in folders of their own"
        )
        raise PlanError(msg)
    return Path(chosen) if chosen else None


def put_stages(
    file: Path, wheel: Path, project: Path, environment: Mapping[str, str]
) -> Path | None:
    """Copy a file of kept stages to its final place and return that; None if there is no file.

    The place is the folder of AOTBUILD_STAGES, else the wheel's folder. Under pip, which removes
    the wheel's folder, it is `dist` of the project. A file of an earlier build is removed.
    """
    stages_path(wheel).unlink(missing_ok=True)
    if not file.exists():
        return None
    usual = project / "dist" if environment.get(_PIP) else wheel.parent
    folder = chosen_folder(environment) or usual
    folder.mkdir(parents=True, exist_ok=True)
    place = folder / stages_path(wheel).name
    write_whole(place, file.read_bytes())
    return place


class AotBuildHook(BuildHookInterface[Any]):
    """Hatchling's build hook `aotbuild`."""

    PLUGIN_NAME = NAME
    # Units that failed and were left out.
    _missing = 0
    _size_remedy = ""

    def dependencies(self) -> list[str]:
        """Return what the build environment needs: the project's dependencies and the toolchain."""
        if self.target_name != "wheel":
            return []
        with self._abort_on_error():
            check_dynamic(self.metadata.config.get("project", {}), self.metadata.hatch)
        needed = build_requirements(self._manifest, self._project)
        return [*needed, *([SBOM_LIBRARY] if self._options.sbom else [])]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile the manifest into a temporary folder and add it to the wheel."""
        if self.target_name != "wheel":
            return
        if version == "editable" and self._options.editable == "defer":
            self._say("editable install, compiling is deferred")
            return
        package = self._build_or_abort()
        self._leave_out_source_artifacts()
        key = "force_include_editable" if version == "editable" else "force_include"
        included = build_data.setdefault(key, {})
        included[str(package.folder)] = self._sources.artifacts
        if package.stages and version == "editable":
            included[str(package.stages)] = str(stages_path(Path(self._sources.artifacts)))
        build_data["pure_python"] = False
        build_data["tag"] = wheel_tag(package.plan)
        if self._options.sbom:
            build_data["sbom_files"].append(str(self._workplace / SBOM_NAME))

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Put the kept stages beside the wheel, and remove the temporary folder."""
        if self.target_name == "wheel" and version != "editable":
            stages, wheel = stages_path(self._artifacts), Path(artifact_path)
            if place := put_stages(stages, wheel, Path(self.root), os.environ):
                self.app.display_info(f"aotbuild: kept stages are in {place}")
            notes = (
                size_note(wheel.stat().st_size, wheel.name, self._size_remedy),
                self._missing_note(wheel.name),
                self._version_note(wheel.name),
                self._sdist_note(),
            )
            for note in filter(None, notes):
                self.app.display_warning(f"aotbuild: {note}")
        shutil.rmtree(self._workplace, ignore_errors=True)

    def _missing_note(self, wheel: str) -> str | None:
        """Return a note about a wheel without everything that its manifest asks for."""
        if not self._missing:
            return None
        return (
            f"{wheel} lacks {plural(self._missing, 'unit')} of its manifest, which failed and "
            "on-failure = skip left out; `aotbuild inspect` lists them"
        )

    def _version_note(self, wheel: str) -> str | None:
        """Return a note about a wheel whose version should name its jax, and does not."""
        if self.metadata.hatch.config.get("version", {}).get("source") != NAME:
            return None
        if "version" in self.metadata.config["project"]:
            return (
                f"{wheel} has the version of [project], so its jax is not added; list version "
                "under dynamic, and write it under [tool.hatch.version]"
            )
        local = with_jax("", chosen_jax(self._manifest)).removeprefix("+")
        if local in self.metadata.version:
            return None
        return (
            f"{wheel} has the version of its source distribution, without +{local}: that was made "
            "without jax. Build the wheel from the project itself (--wheel), or name a toolchain"
        )

    def _sdist_note(self) -> str | None:
        """Return a note if this is a source distribution that holds executables."""
        root = Path(self.root)
        if not (root / "PKG-INFO").is_file():
            return None
        found = sorted(path.parent for path in root.rglob(f"{FOLDER_NAME}/{INDEX_NAME}"))
        if not found:
            return None
        named = ", ".join(folder.relative_to(root).as_posix() for folder in found)
        return (
            f"{root.name}.tar.gz holds executables: {named}; build-backend = "
            '"hatch_aotbuild.backend" leaves them out'
        )

    def _leave_out_source_artifacts(self) -> None:
        """Exclude what `aotbuild build --in-place` wrote; the wheel gets a new one."""
        config = self.build_config
        place = self._sources.import_root / self._sources.artifacts
        relative = place.relative_to(Path(self.root).resolve()).as_posix()
        names = (relative, stages_path(Path(relative)).as_posix())
        owner = config.target_config if "exclude" in config.target_config else config.build_config
        owner.setdefault("exclude", []).extend(f"/{name}" for name in names)
        config.__dict__.pop("exclude_spec", None)  # hatchling may have cached it

    def _build_or_abort(self) -> Package:
        try:
            with self._abort_on_error():
                return self._build()
        finally:
            # After abort() or Ctrl-C hatchling does not call finalize.
            if not self._artifacts.exists():
                shutil.rmtree(self._workplace)

    @contextmanager
    def _abort_on_error(self) -> Iterator[None]:
        """End the build with the message of an aotbuild error, without a traceback."""
        try:
            yield
        except AotbuildError as err:
            self.app.abort(f"aotbuild: {err}")
            raise

    def _build(self) -> Package:
        started = monotonic()
        if self._options.sbom:
            check_sbom()
        chosen_folder(os.environ)  # fails before anything is compiled
        environment = find_environment(self._manifest, self._project, self._say)
        plan = make_plan(self._manifest, environment)
        self._check_requirements(plan)
        wheel_tag(plan)  # fails before anything is compiled, too
        units = plural(len(plan.units), "unit")
        self._say(f"{units}, {'; '.join(map(str, environment.toolchains))}")
        make_environments(environment.toolchains, self._say)
        skip = self._options.on_failure == "skip"
        sources, artifacts = self._sources, self._artifacts
        with tracked(plan.units, self._say, live=self.app.verbosity >= 0) as tracker:
            package = build_package(plan, sources, artifacts, tracker, keep_going=skip)
        self._say(summary(package, monotonic() - started))
        self._size_remedy = package.size_remedy
        self._missing = len({failure.unit for failure in package.failures})
        for note in (*package.notes, *filter(None, [package.left_out])):
            self.app.display_warning(f"aotbuild: {note}")
        if self._options.sbom:
            wheel = Distribution(self.metadata.core.raw_name, self.metadata.version)
            write_sbom(package.folder, self._workplace, wheel)
        return package

    def _say(self, line: str) -> None:
        self.app.display_info(f"aotbuild: {line}")

    @cached_property
    def _project(self) -> Sequence[str]:
        """The project's own dependencies."""
        with self._abort_on_error():
            return project_requirements(Path(self.root))

    def _check_requirements(self, plan: Plan) -> None:
        """Raise PlanError if the wheel's metadata would lack what its executables require.

        Metadata from the PKG-INFO of a source distribution stays as it was made there.
        """
        stated = set(map(Requirement, self.metadata.core.dependencies))
        missing = [text for text in wheel_requirements(plan) if Requirement(text) not in stated]
        if missing:
            msg = (
                "the metadata of this project was made by another build\n"
                f"  expected {', '.join(missing)}\n"
                f"  found    {', '.join(sorted(map(str, stated)))}\n"
                "Make the source distribution again, with the aotbuild and the jax of this build."
            )
            raise PlanError(msg)

    @cached_property
    def _options(self) -> Options:
        with self._abort_on_error():
            return read_options(self.config)

    @cached_property
    def _manifest(self) -> Manifest:
        with self._abort_on_error():
            return load_manifest(Path(self.root) / self._options.manifest)

    @cached_property
    def _sources(self) -> SourceTree:
        packages = tuple(str(Path(path).parent) for path in self.build_config.packages)
        return find_sources(Path(self.root), self._manifest.package, packages)

    @property
    def _artifacts(self) -> Path:
        """Where the `_aot` folder is made."""
        return self._workplace / FOLDER_NAME

    @cached_property
    def _workplace(self) -> Path:
        return Path(tempfile.mkdtemp(prefix="aotbuild-"))
