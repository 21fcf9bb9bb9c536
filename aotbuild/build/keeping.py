"""Keep a finished build in the store, for `build.finished` to find."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from time import time_ns

from aotbuild.build.direct.reads import Reads
from aotbuild.build.direct.world import Worlds
from aotbuild.build.finished import Finished, KeptBuild, WheelInputs
from aotbuild.build.planned import TICK, KnownPlan, is_written_since, known_plan
from aotbuild.build.sources import SourceTree
from aotbuild.format.encodings import decide_encodings
from aotbuild.format.index import INDEX_NAME
from aotbuild.format.layout import BLOBS
from aotbuild.store.local import Store
from aotbuild.store.places import front_folder
from aotbuild.store.read_set import ReadSet, union


@dataclass(frozen=True)
class Beginning:
    """When a build began, in nanoseconds, and what was known of its plan then."""

    time: int
    plan: KnownPlan | None


def begin(inputs: WheelInputs, environment: Mapping[str, str]) -> Beginning:
    """Return what `keep_build` compares with, before the build reads anything."""
    return Beginning(time_ns(), known_plan(inputs.plan, Store(front_folder(environment))))


def keep_build(
    inputs: WheelInputs,
    finished: Finished,
    folder: Path,
    reads: Reads,
    beginning: Beginning,
    environment: Mapping[str, str],
) -> None:
    """Keep a build if all that it read is known, also of its plan when it began.

    Nothing of it may have changed since it was read. Texts that name this place are not kept.
    """
    store = Store(front_folder(environment))
    plan = known_plan(inputs.plan, store) if reads.complete else None
    if not plan or plan != beginning.plan:
        return
    key = inputs.key(plan, environment)
    if not key or finished.missing or _names_places(inputs.plan.root, finished):
        return
    if any(decide_encodings(dict(job.settings.env)) for job in reads.jobs):
        return  # the key has the encodings of this process
    blobs = {file.name: file.stem for file in (folder / BLOBS).iterdir()}
    if not reads.blobs.keys() >= {*blobs.values()}:
        return
    sources = inputs.sources(finished.package)
    names = union(each for job in reads.jobs for each in job.names.sets)
    state = _state(inputs, sources, names, environment)
    if not _is_unchanged(inputs, sources, reads, plan, beginning.time):
        return
    if state != _state(inputs, sources, names, environment):
        return  # it was edited while this looked
    index = (folder / INDEX_NAME).read_bytes()
    kept = KeptBuild(
        finished,
        index,
        {name: reads.blobs[sha256] for name, sha256 in blobs.items()},
        tuple(sorted(reads.used)),
        sources.below(sources.import_root),
        names,
        state,
    )
    store.put(key, kept.to_entry())


def _names_places(root: Path, finished: Finished) -> bool:
    """Return whether a text for people has a path that is another one next time."""
    texts = (*finished.lines, *finished.notes)
    return any(str(place) in text for text in texts for place in (root, sys.prefix))


def _state(
    inputs: WheelInputs, sources: SourceTree, names: ReadSet, environment: Mapping[str, str]
) -> str:
    return inputs.world(sources, environment).state(names)


def _is_unchanged(
    inputs: WheelInputs, sources: SourceTree, reads: Reads, plan: KnownPlan, started: int
) -> bool:
    """Return whether plan and jobs would read the same again."""
    if inputs.plan.again().key != inputs.plan.key:
        return False
    try:
        if is_written_since(inputs.plan.root, plan.files, started - TICK):
            return False
    except OSError:
        return False
    worlds = Worlds(sources, inputs.plan.digests)
    jobs = ((worlds.state(worlds.of(job.settings), job.names), job.state) for job in reads.jobs)
    return all(now == then for now, then in jobs)
