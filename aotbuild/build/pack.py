"""Build a plan into a finished `_aot/` folder, whole or not at all."""

from __future__ import annotations

import io
import os
import sys
import tempfile
import time
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from aotbuild.build.assemble import Assembled, assemble
from aotbuild.build.direct.reads import Reads
from aotbuild.build.edits import refuse_edits
from aotbuild.build.embedded import embedded_in, embedded_notes, hoisted_notes, size_remedy
from aotbuild.build.events import Listener, UnitDone, ignore
from aotbuild.build.executors.driver import run_units
from aotbuild.build.placing import behind_links, put_into_place, workplace
from aotbuild.build.plan import Plan
from aotbuild.build.result_types import result_type_notes
from aotbuild.build.results import PlanFacts, ShardFile, results_of
from aotbuild.build.shares import Share, data_files
from aotbuild.build.sources import SourceTree, TracedFiles
from aotbuild.errors import BuildError, UnitFailure, listing
from aotbuild.format.files import write_whole
from aotbuild.format.index import FOLDER_NAME, INDEX_NAME, write_index
from aotbuild.format.layout import (
    BESIDE,
    BLOBS,
    HEADER_KEY,
    packaged_blobs,
    stages_path,
)
from aotbuild.format.record import Record
from aotbuild.format.shard import SHARD_NAME
from aotbuild.store.layers import Counts, Layers, open_store
from aotbuild.store.local import UNKEPT

# For the zip of kept stages: the earliest time it can hold, Unix, and rw-r--r--.
_EPOCH = (1980, 1, 1, 0, 0, 0)
_UNIX = 3
_MODE = 0o644


@dataclass(frozen=True)
class Origins:
    """Where units came from: the store, `direct` of them without a trace, or the compiler.

    `traced_because` counts why units were traced again, the most frequent reason first.
    """

    stored: int = 0
    direct: int = 0
    compiled: int = 0
    failed: int = 0
    traced_because: Mapping[str, int] = field(default_factory=dict)

    @staticmethod
    def of(done: Sequence[UnitDone], failed: int) -> Origins:
        """Count results of units that did not fail, and add those that did."""
        stored, direct = (sum(getattr(d, n) for d in done) for n in ("stored", "direct"))
        reasons = Counter(d.traced_because for d in done if d.traced_because)
        return Origins(stored, direct, len(done) - stored, failed, dict(reasons.most_common()))

    def __str__(self) -> str:
        """Say it for people, as `64 units: 60 from the store (58 without tracing), 4 compiled`."""
        traced = f" ({self.direct} without tracing)" if self.direct else ""
        counts = (
            (self.stored, f"from the store{traced}"),
            (self.compiled, "compiled"),
            (self.failed, "failed"),
        )
        total = self.stored + self.compiled + self.failed
        parts = ", ".join(f"{count} {words}" for count, words in counts if count)
        return f"{total} {'unit' if total == 1 else 'units'}: {parts}"


@dataclass(frozen=True)
class Package:
    """A finished `_aot` folder, and notes for whoever builds it.

    `plan` has the units that are in the folder, also those that `feedback:` added, and `records`
    theirs. `failures` are of the units that were left out. `stages` is the file of kept stages
    beside the folder, if the manifest asks for one. `size_remedy` ends a note about the size.
    `store` says what the store was good for, `origins` where the units came from, and `reads` what
    is known of what their jobs read. `checked` is when nothing was found to be edited.
    """

    folder: Path
    plan: Plan
    records: tuple[Record, ...]
    notes: tuple[str, ...] = ()
    stages: Path | None = None
    failures: tuple[UnitFailure, ...] = ()
    size_remedy: str = ""
    store: Counts = field(default_factory=Counts)
    origins: Origins = field(default_factory=Origins)
    reads: Reads = field(default_factory=Reads)
    checked: int = 0

    @property
    def left_out(self) -> str | None:
        """What was left out and why, for whoever builds it; None if nothing was."""
        if not self.failures:
            return None
        count = len({failure.unit for failure in self.failures})
        found = f"{count} of {count + len(self.records)} build units failed and were left out:"
        return f"{found}\n{listing(self.failures)}"

    @property
    def size(self) -> int:
        """The size of the whole folder in bytes; equal blobs count once."""
        return sum(path.stat().st_size for path in self.files())

    def files(self) -> Iterator[Path]:
        """Yield every file of the folder, sorted."""
        yield from sorted(path for path in self.folder.rglob("*") if path.is_file())


def build_package(
    plan: Plan,
    sources: SourceTree,
    folder: Path,
    listener: Listener = ignore,
    jobs: int | None = None,
    *,
    keep_going: bool = False,
    share: Share | None = None,
    executor: str | None = None,
    direct: bool = True,
) -> Package:
    """Compile a plan into `folder`, replacing what is there; BuildError if any unit failed.

    SourcesEdited, another BuildError, if a file that was compiled is not what it was.

    With `keep_going`, units that failed are left out, and BuildError is raised only if all failed.
    The environments of its toolchains must exist (`make_environments`). Nothing is written to
    `folder` until everything succeeded. The file of kept stages beside it is of this build, or
    removed. `jobs`, `executor` and `direct` are those of `run_units`. At last, what was made is
    written to the other layers of the store, even if some units failed. With `share`, only its
    units are compiled, and the folder is that of a shard; a shard may be empty.
    """
    with open_store(os.environ) as layers:
        try:
            package = _packed(
                *(plan, sources, behind_links(folder), listener, jobs, executor),
                keep_going=keep_going,
                share=share,
                direct=direct,
                layers=layers,
            )
        except BuildError:
            layers.push()
            raise
        layers.push()
        store = layers.store
        package.reads.used |= store.made | store.used | store.local | layers.uncounted
        package.reads.used |= layers.indexes.rows.keys()
        package.reads.complete &= UNKEPT not in layers.store.problems
        return replace(package, store=layers.counts)


def _packed(
    plan: Plan,
    sources: SourceTree,
    folder: Path,
    listener: Listener,
    jobs: int | None,
    executor: str | None,
    *,
    keep_going: bool,
    share: Share | None,
    direct: bool,
    layers: Layers,
) -> Package:
    facts, secrets, started = PlanFacts.of(plan), _secrets(plan, sources), time.time_ns()
    with workplace(folder) as temporary:
        staging = new_package(temporary)
        traced = TracedFiles()
        wanted = share.part_of(plan) if share else plan
        run = (
            run_units(
                *(wanted, sources, staging, listener, executor),
                jobs=jobs,
                traced=traced,
                layers=layers,
                direct=direct,
            )
            if wanted.units
            else []
        )
        results, files = results_of(plan, run), traced.digests(sources, plan.manifest)
        made = assemble(facts, results, files, secrets)
        if made.failures and not (keep_going and (made.done or share)):
            raise BuildError(made.failures, made.total)
        checked = time.time_ns()
        edited = refuse_edits(sources, traced, files, started)
        if share:
            cleaned = tuple(result.without(secrets) for result in results)
            labels = share.labels(plan, secrets)
            data = data_files(sources, traced.reads, started)
            file = ShardFile(facts, labels, share.numbers, keep_going, files, cleaned, data)
            made = share.mark(made, file)
            write_whole(staging / SHARD_NAME, file.to_bytes())
        records = [r.record for r in results if r.record] if share else made.records
        kept = finish(staging, folder, made, records)
    by_unit = {result.unit: done for result, done in zip(results, run, strict=True)}
    done = [by_unit[result.unit] for result in made.done]
    embedded = embedded_in(done)
    types = [*_result_type_notes(plan, sources, made.records)]
    empty = share.notes if share else ()
    constants = (*embedded_notes(embedded), *hoisted_notes(made.records))
    notes = (*_notes(done), *constants, *types, *edited, *empty)
    remedy, origins = size_remedy(embedded), Origins.of(done, len(made.failures))
    reduced = _reduced(plan, done, made.toolchains)
    return Package(
        *(folder, reduced, made.records, notes, kept, made.failures, remedy),
        origins=origins,
        reads=traced.reads,
        checked=checked,
    )


def new_package(temporary: Path) -> Path:
    """Return a new `_aot` folder to fill in a temporary one, which `finish` moves to its place."""
    staging = temporary / FOLDER_NAME
    staging.mkdir(mode=0o755)
    (staging / BLOBS).mkdir()
    return staging


def finish(staging: Path, folder: Path, made: Assembled, records: Iterable[Record]) -> Path | None:
    """Write the index beside the blobs in `staging`, and move it all to `folder`.

    Only the blobs of `records` stay. Returns the file of kept stages, if there is one.
    """
    records, stages = list(records), staging.parent / "stages"
    is_beside = made.header.get(HEADER_KEY) == BESIDE
    if is_beside:
        write_stages(stages, staging, records)
    _drop_unused_blobs(staging, records, made.header)
    write_whole(staging / INDEX_NAME, write_index(made.header, made.functions, made.records))
    put_into_place(staging, folder, stages)
    return stages_path(folder) if is_beside else None


def _result_type_notes(plan: Plan, sources: SourceTree, records: Sequence[Record]) -> Iterator[str]:
    """Yield notes on results that a wheel returns only where jax is, if it does not require jax."""
    if plan.manifest.runtime == "jaxlib" and records:
        interpreter = plan.units[0].toolchain.interpreter
        yield from result_type_notes(records, sources.import_root, interpreter)


def _reduced(plan: Plan, done: Iterable[UnitDone], toolchains: Iterable[int]) -> Plan:
    """Return a plan without the units that failed, and without toolchains that made nothing."""
    kept = tuple(plan.environment.toolchains[place] for place in toolchains)
    environment = replace(plan.environment, toolchains=kept)
    return replace(plan, units=tuple(d.unit for d in done), environment=environment)


def _secrets(plan: Plan, sources: SourceTree) -> list[str]:
    """Return the folders of this machine that errors may name."""
    environments = [toolchain.interpreter for toolchain in plan.environment.toolchains]
    prefixes = [str(interpreter.parent.parent) for interpreter in environments if interpreter]
    here = [sys.prefix, sys.base_prefix, str(Path("~").expanduser()), tempfile.gettempdir()]
    return [str(sources.root), *here, *prefixes]


def _notes(done: list[UnitDone]) -> tuple[str, ...]:
    """Return the notes of all units, each once: units of one trace share theirs."""
    texts = (f"{result.unit.signature_label}: {note}" for result in done for note in result.notes)
    return tuple(dict.fromkeys(texts))


def _drop_unused_blobs(folder: Path, records: Iterable[Record], header: dict[str, Any]) -> None:
    wanted = {blob.path for record in records for blob in packaged_blobs(record, header)}
    for path in (folder / BLOBS).iterdir():
        if f"{BLOBS}/{path.name}" not in wanted:
            path.unlink()


def write_stages(path: Path, folder: Path, records: Iterable[Record]) -> None:
    """Write the kept stages of records, whose blobs are below `folder`, to a zip file."""
    names = {blob.path for record in records for _, blob in record.stages}
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        for name in sorted(names):
            member = zipfile.ZipInfo(name, _EPOCH)
            member.compress_type = zipfile.ZIP_DEFLATED
            member.create_system, member.external_attr = _UNIX, _MODE << 16
            archive.writestr(member, (folder / name).read_bytes(), compresslevel=9)
    write_whole(path, data.getvalue())
