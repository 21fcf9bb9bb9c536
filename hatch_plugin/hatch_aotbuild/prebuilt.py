"""A finished `_aot` folder in place of a compilation: AOTBUILD_PREBUILT, as for joined shards."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from aotbuild.build.check import out_of_date
from aotbuild.build.finished import Finished, WheelInputs
from aotbuild.build.plan import make_plan
from aotbuild.build.requirements import wheel_requirements, wheel_tag
from aotbuild.errors import PlanError, StagesNotFound
from aotbuild.format.files import naming
from aotbuild.format.index import INDEX_NAME, Index
from aotbuild.format.layout import BESIDE, BLOBS, HEADER_KEY, packaged_blobs, stages_path
from aotbuild.format.left_out import read_left_out
from aotbuild.format.record import Record
from aotbuild.format.shard import SHARD_VARIABLE
from aotbuild.manifest import load_manifest
from aotbuild.report.words import bytes_text, plural
from aotbuild.runtime.blobs import read_blob
from aotbuild.runtime.source import DirectorySource, open_index
from aotbuild.toolchains.environments import find_environment
from hatch_aotbuild.compiling import Say, check_requirements
from hatch_aotbuild.options import PREBUILT


def take_prebuilt(
    inputs: WheelInputs,
    place: Path,
    folder: Path,
    stated: Iterable[str],
    say: Say,
    *,
    keep_going: bool,
) -> Finished:
    """Copy a finished `_aot` folder to `folder`; nothing is compiled.

    PlanError if a build would write another one, as far as `build.check` knows; DamagedBlob if a
    blob is not what the build made. The rest is as in `compile_wheel`.
    """
    if inputs.shard:
        msg = f"{PREBUILT} and {SHARD_VARIABLE} exclude each other: unset one of them"
        raise PlanError(msg)
    manifest = load_manifest(inputs.plan.manifest)
    plan = make_plan(manifest, find_environment(manifest, inputs.plan.project, say))
    check_requirements(wheel_requirements(plan), stated)
    sources = inputs.sources(manifest.package)
    if reasons := out_of_date(plan, sources, place, may_lack=keep_going):
        lines = "".join(f"\n  {reason}" for reason in reasons)
        msg = (
            f"{PREBUILT}: {place} is not what a build would write{lines}\n"
            f"Build it again, or unset {PREBUILT}."
        )
        raise PlanError(msg)
    source = DirectorySource(place)
    index = open_index(source)
    records = [record for f in index.functions() for record in index.records(f.name)]
    size = _copy(source, index, records, folder)
    made = f"{plural(len(records), 'executable')}, {bytes_text(size)} with the index"
    say(f"{made}, taken from {place}")
    targets = {record.target for record in records}
    built = replace(plan, units=tuple(unit for unit in plan.units if unit.target in targets))
    failed = read_left_out(index.header).count
    return Finished(
        package=manifest.package,
        tag=wheel_tag(built),
        lines=(),
        made=made,
        missing=plural(failed, "unit") if failed else "",
    )


def _copy(source: DirectorySource, index: Index, records: Iterable[Record], folder: Path) -> int:
    """Copy a package with the kept stages beside it; return its size without them."""
    place = Path(source.place)
    files = {INDEX_NAME: source.read(INDEX_NAME)}
    for blob in {b for record in records for b in packaged_blobs(record, index.header)}:
        files[blob.path] = read_blob(source, blob)
    if index.header.get(HEADER_KEY) == BESIDE:
        stages = stages_path(place)
        if not stages.is_file():
            raise StagesNotFound(source.place, [str(stages)])
        shutil.copyfile(stages, stages_path(folder))
    (folder / BLOBS).mkdir(parents=True)
    for name, data in files.items():
        with naming(folder / name):
            (folder / name).write_bytes(data)
    return sum(map(len, files.values()))
