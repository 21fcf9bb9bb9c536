"""The build hook: adapts hatchling to `aotbuild.build`. It changes `build_data` last.

What plans and compiles is in `hatch_aotbuild.compiling`, which imports much more.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cached_property
from pathlib import Path
from time import monotonic, time_ns
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

from aotbuild.build.finished import Finished, WheelInputs, recall_build
from aotbuild.build.planned import PlanInputs, front_digests
from aotbuild.build.size import size_note
from aotbuild.build.sources import SourceTree, find_sources
from aotbuild.cli.ending import end_on_signals
from aotbuild.errors import AotbuildError, PlanError
from aotbuild.format.index import FOLDER_NAME, INDEX_NAME
from aotbuild.format.layout import stages_path
from aotbuild.format.shard import SHARD_VARIABLE, Shard, chosen_shard
from aotbuild.format.temporary import NAMES, temporary_folder
from aotbuild.report.words import os_error_text
from aotbuild.toolchains.project import project_requirements
from hatch_aotbuild.ci import tell_ci
from hatch_aotbuild.edited import refuse_edited, refuse_replaced, removed_on_error
from hatch_aotbuild.kept_stages import put_stages
from hatch_aotbuild.notes import missing_note, sdist_note, shard_note, version_note
from hatch_aotbuild.options import (
    NAME,
    PREBUILT,
    STAGES,
    Options,
    check_dynamic,
    check_time,
    chosen_folder,
    missing_extra,
    read_options,
)
from hatch_aotbuild.shipped import leave_out, shipped_otherwise
from hatch_aotbuild.stale import refuse_stale
from hatch_aotbuild.tags import check_tag, tag_for_all


class AotBuildHook(BuildHookInterface[Any]):
    """Hatchling's build hook `aotbuild`."""

    PLUGIN_NAME = NAME
    _finished: Finished | None = None
    _started = 0
    _place = ""
    _tag = ""

    def dependencies(self) -> list[str]:
        """Return what the build environment needs: the project's dependencies and the toolchain."""
        if self.target_name != "wheel":
            return []
        with self._abort_on_error():
            self._check_dynamic()
            from hatch_aotbuild.compiling import needed_for_build

            return needed_for_build(self._plan_inputs)

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile the manifest into a temporary folder and add it to the wheel."""
        if self.target_name != "wheel":
            return
        if version == "editable" and self._options.editable == "defer":
            self._say("editable install, compiling is deferred")
            return
        self._refuse_shard(version)
        self._finished = finished = self._build_or_abort()
        sources = find_sources(Path(self.root), finished.package, self._packages)
        self._place = sources.artifacts
        self._leave_out_source_artifacts(sources)
        key = "force_include_editable" if version == "editable" else "force_include"
        included = build_data.setdefault(key, {})
        included[str(self._artifacts)] = sources.artifacts
        stages = stages_path(self._artifacts)
        if stages.exists() and version == "editable":
            included[str(stages)] = str(stages_path(Path(sources.artifacts)))
        build_data["pure_python"] = False
        builder = self.build_config.builder
        self._tag = tag_for_all(finished.tag, build_data, builder.get_best_matching_tag)
        build_data["tag"] = self._tag

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Put the kept stages beside the wheel, and remove the temporary folder."""
        try:
            if self.target_name == "wheel" and version != "editable":
                self._finish(Path(artifact_path), build_data)
        finally:
            self._end_temporary()

    def _finish(self, wheel: Path, build_data: dict[str, Any]) -> None:
        """Say what there is to say of a finished wheel, unless its sources were edited."""
        stages = stages_path(self._artifacts)
        since = (self._finished.checked if self._finished else 0) or self._started
        with self._abort_on_error(), removed_on_error(wheel):
            if since:
                refuse_edited(wheel, self._artifacts, Path(self.root), since, self.build_config)
            if self._finished:
                refuse_replaced(wheel, self._artifacts, self.build_config)
            self._check_shipped(wheel)
            if self._place:
                own = self.build_config.get_distribution_path(f"{self._place}/{INDEX_NAME}")
                refuse_stale(wheel, Path(self.root), own)
            if self._finished:
                check_tag(self._finished.tag, self._tag, build_data)
        if place := put_stages(stages, wheel, Path(self.root), os.environ):
            self.app.display_info(f"aotbuild: kept stages are in {place}")
        finished = self._finished
        notes = (
            size_note(wheel.stat().st_size, wheel.name, finished.size_remedy if finished else ""),
            shard_note(wheel.name, self._shard),
            missing_note(wheel.name, finished.missing if finished else ""),
            version_note(wheel.name, self.metadata, self._plan_inputs.manifest),
            sdist_note(Path(self.root)),
        )
        for note in filter(None, notes):
            self._warn(note)
        self._tell_ci(None, wheel.name)

    def _check_shipped(self, wheel: Path) -> None:
        """Raise PlanError if the wheel holds other files than it made."""
        config, built = self.build_config, self._artifacts
        if self._place and (problem := shipped_otherwise(wheel, config, built, self._place)):
            raise PlanError(problem)

    def _refuse_shard(self, version: str) -> None:
        """End an editable install that has but a share of the package."""
        with self._abort_on_error():
            if self._shard and version == "editable":
                msg = f"{SHARD_VARIABLE}: an editable install takes the whole package; unset it"
                raise PlanError(msg)

    def _leave_out_source_artifacts(self, sources: SourceTree) -> None:
        """Leave out what `aotbuild build --in-place` wrote, or left behind when it was killed.

        The wheel gets a new one.
        """
        config = self.build_config
        place = sources.import_root / sources.artifacts
        relative = place.relative_to(Path(self.root).resolve()).as_posix()
        names = (relative, stages_path(Path(relative)).as_posix())
        leave_out(config, (*(f"/{name}" for name in names), NAMES))

    def _build_or_abort(self) -> Finished:
        # Until finalize, so also while hatchling packs the wheel.
        self._temporary.callback(end_on_signals())
        try:
            with self._abort_on_error():
                return self._build()
        finally:
            # After abort() or Ctrl-C hatchling does not call finalize.
            if not self._artifacts.exists():
                self._temporary.close()

    @contextmanager
    def _abort_on_error(self) -> Iterator[None]:
        """End the build with the message of an aotbuild error, without a traceback."""
        try:
            yield
        except AotbuildError as err:
            self._tell_ci(err)
            self.app.abort(f"aotbuild: {err}")
            raise
        except ModuleNotFoundError as err:
            self.app.abort(missing_extra(err))
            raise
        except OSError as err:
            if err.filename is not None:  # else it says too little without the traceback
                self.app.abort(f"aotbuild: {os_error_text(err)}")
            raise

    def _build(self) -> Finished:
        # They fail before anything is compiled.
        chosen_folder(os.environ, STAGES)
        check_time(os.environ)
        # Also here: without build isolation, nobody asks for `dependencies`.
        self._check_dynamic()
        prebuilt = chosen_folder(os.environ, PREBUILT)
        self._started = time_ns()
        metadata, started = self.metadata, monotonic()
        inputs = WheelInputs(self._plan_inputs, self._packages, self._shard)
        stated = metadata.core.dependencies
        keep_going, live = self._options.on_failure == "skip", self.app.verbosity >= 0
        if prebuilt:
            from hatch_aotbuild.prebuilt import take_prebuilt

            return take_prebuilt(
                *(inputs, prebuilt, self._artifacts, stated, self._say), keep_going=keep_going
            )
        if finished := recall_build(inputs, self._artifacts, stated, os.environ):
            for line in finished.lines:
                self._say(line)
            self._say(f"{finished.made}, in {monotonic() - started:.1f} s")
            for note in finished.notes:
                self._warn(note)
            return finished
        from hatch_aotbuild.compiling import compile_wheel

        return compile_wheel(
            *(inputs, self._artifacts, stated, self._say, self._warn),
            keep_going=keep_going,
            live=live,
        )

    def _check_dynamic(self) -> None:
        check_dynamic(self.metadata.config.get("project", {}), self.metadata.hatch)

    def _say(self, line: str) -> None:
        self._said.append(line)
        self.app.display_info(f"aotbuild: {line}")

    def _warn(self, note: str) -> None:
        self._said.append(note)
        self.app.display_warning(f"aotbuild: {note}")

    def _tell_ci(self, error: AotbuildError | None, *lines: str) -> None:
        # The error may be about the options.
        options = vars(self).get("_options")
        manifest = Path(self.root) / options.manifest if options else None
        tell_ci((*self._said, *lines), error, manifest, self.app.display_info)

    @cached_property
    def _said(self) -> list[str]:
        return []

    @cached_property
    def _shard(self) -> Shard | None:
        return chosen_shard(os.environ)

    @cached_property
    def _options(self) -> Options:
        with self._abort_on_error():
            return read_options(self.config)

    @cached_property
    def _plan_inputs(self) -> PlanInputs:
        root = Path(self.root)
        with self._abort_on_error():
            manifest, digests = root / self._options.manifest, front_digests(os.environ)
            return PlanInputs(root, manifest, project_requirements(root), digests)

    @property
    def _packages(self) -> tuple[str, ...]:
        """The folders that hatchling's packages are in, by `packages` or by `sources`."""
        found = [str(Path(path).parent) for path in self.build_config.packages]
        for source, packed in self.build_config.sources.items():
            if source.endswith(packed):
                found.append(source.removesuffix(packed).rstrip("/") or ".")
        return tuple(dict.fromkeys(found))

    @property
    def _artifacts(self) -> Path:
        """Where the `_aot` folder is made."""
        return self._workplace / FOLDER_NAME

    @cached_property
    def _workplace(self) -> Path:
        return self._temporary.enter_context(temporary_folder())

    @cached_property
    def _temporary(self) -> ExitStack:
        files = ExitStack()
        # After Ctrl-C hatchling calls no finalize: then the end of the process closes it.
        weakref.finalize(self, files.close)
        return files

    def _end_temporary(self) -> None:
        """Remove the temporary folder, and forget it: the next version of the wheel has its own."""
        self._temporary.close()
        for name in ("_temporary", "_workplace"):
            vars(self).pop(name, None)
