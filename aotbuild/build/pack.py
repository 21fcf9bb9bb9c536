"""Build a plan into a finished `_aot/` folder, whole or not at all."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import monotonic

from aotbuild.build.assemble import assemble
from aotbuild.build.kept_build import Inputs, keep, recall
from aotbuild.build.placing import behind_links, put_into_place, workplace
from aotbuild.build.plan import Plan
from aotbuild.build.progress import Listener, Say, Tracker, UnitDone, ignore, reminders
from aotbuild.build.project import Project, SourceTree
from aotbuild.build.run_units import LOCAL, BuildOptions, chosen_executor, run_units
from aotbuild.errors import BuildError, SourcesEdited
from aotbuild.format.files import write_whole
from aotbuild.format.index import FOLDER_NAME, INDEX_NAME, SOURCES, Index, write_index
from aotbuild.format.layout import BLOBS
from aotbuild.format.record import Record
from aotbuild.format.words import bytes_text, plural
from aotbuild.store.build_store import BuildStore, Counts, open_store
from aotbuild.toolchains.environments import make_environments

_DEFAULT = BuildOptions()


@dataclass(frozen=True)
class Package:
    """A finished `_aot` folder, and notes for whoever builds it.

    `plan` has the units that are in the folder, also those that `feedback:` added, and `records`
    theirs. `stored` is how many of them the store had; `recalled` says that nothing was traced,
    because an equal build was kept. `store` says what the store was good for. `seconds` is how long
    it took.
    """

    folder: Path
    plan: Plan
    records: tuple[Record, ...]
    notes: tuple[str, ...] = ()
    stored: int = 0
    recalled: bool = False
    store: Counts = field(default_factory=Counts)
    seconds: float = 0.0

    @property
    def size(self) -> int:
        """The size of the whole folder in bytes; equal blobs count once."""
        return sum(path.stat().st_size for path in self.files())

    def files(self) -> Iterator[Path]:
        """Yield every file of the folder, sorted."""
        yield from sorted(path for path in self.folder.rglob("*") if path.is_file())

    @property
    def summary(self) -> tuple[str, str]:
        """Two lines for people: where the units came from, and how much it is, in how long."""
        unchanged = ", as nothing has changed" if self.recalled else ""
        total, compiled = len(self.records), len(self.records) - self.stored
        counts = (self.stored, f"from the store{unchanged}"), (compiled, "compiled")
        moved = (self.store.fetched, "fetched"), (self.store.pushed, "pushed")
        origins, transfers = (
            ", ".join(f"{n} {w}" for n, w in each if n) for each in (counts, moved)
        )
        size = f"{plural(total, 'executable')}, {bytes_text(self.size)} with the index"
        stored = f"; store: {transfers}" if transfers else ""
        return f"{plural(total, 'unit')}: {origins}", f"{size}, in {self.seconds:.1f} s{stored}"


def build_project(
    project: Project,
    folder: Path,
    say: Say,
    options: BuildOptions = _DEFAULT,
    tracker: Tracker | None = None,
    *,
    in_place: bool = False,
) -> Package:
    """Make the environments that compile, and build a project into `folder`.

    `say` gets a line for each slow step and for each unit. A package that is built `in_place`, in
    its source folder, states the digests of its modules. See `build_package`.
    """
    started = monotonic()
    sources = project.sources
    if in_place:  # before anything is read, so that no later edit passes for what was compiled
        functions = project.plan.manifest.functions.values()
        sources = sources.stating(name for each in functions for name in each.references)
    make_environments(project.plan.environment.toolchains, say)
    tracker = tracker or Tracker(project.plan.units, say)
    with reminders(tracker, say):
        package = build_package(project.plan, sources, folder, tracker, options)
    notes = (*package.notes, *project.notes)
    return replace(package, notes=notes, seconds=monotonic() - started)


def build_package(
    plan: Plan,
    sources: SourceTree,
    folder: Path,
    listener: Listener = ignore,
    options: BuildOptions = _DEFAULT,
) -> Package:
    """Compile a plan into `folder`, replacing what is there; BuildError if any unit failed.

    What an equal build made is taken from the store (`build.kept_build`), unless `options.fresh`
    asks for a trace of every function. SourcesEdited, another BuildError, if a file was edited
    while it was compiled.

    The environments of its toolchains must exist (`make_environments`). Nothing is written to
    `folder` until everything succeeded. At last, what was made is written back to what is behind
    the folder of the store, even if some units failed.
    """
    build_store = open_store(os.environ)
    try:
        package = _build(plan, sources, behind_links(folder), listener, options, build_store)
    except BuildError:
        build_store.push()
        raise
    build_store.push()
    return replace(package, store=build_store.counts)


def _build(
    plan: Plan,
    sources: SourceTree,
    folder: Path,
    listener: Listener,
    options: BuildOptions,
    build_store: BuildStore,
) -> Package:
    with workplace(folder) as temporary:
        inputs = Inputs(plan, sources, tuple(filter(None, (folder, temporary, build_store.front))))
        # Other machines are not in the key.
        is_keyed = build_store.front is not None and chosen_executor(options.executor) == LOCAL
        key = inputs.key(inputs.files) if is_keyed else None
        if key and not options.fresh:
            kept = _recalled(plan, key, folder, temporary, build_store)
            if kept is not None:
                _place(temporary / FOLDER_NAME, folder, sources)
                for unit, record in zip(plan.units, kept.records, strict=True):
                    listener(UnitDone(unit, record=record, stored=True))
                return kept
        staging = _new_package(temporary)
        run = run_units(plan, sources, staging, listener, options, build_store)
        made = assemble(plan, run.results)
        # First: two traces differ if a module was edited between them.
        files = inputs.files_now()
        if edited := inputs.edited(files):
            raise SourcesEdited(edited, made.failures)
        if made.failures:
            raise BuildError(made.failures, made.total)
        _drop_unused_blobs(staging, made.records)
        index = write_index(made.header, made.functions, made.records)
        write_whole(staging / INDEX_NAME, index)
        _place(staging, folder, sources)
        done, notes = made.done, _notes(made.done)
        is_whole = len(done) == len(plan.units)  # `feedback:` adds units
        may_be_kept = is_whole and not any(each.transient for each in done)
        # Not if a file was edited meanwhile.
        if key and may_be_kept and inputs.key(files) == key:
            keep(build_store.store, key, folder, index, made.records, run.stored, notes)
        packed = replace(plan, units=tuple(each.unit for each in done))
        stored = sum(each.stored for each in done)
        return Package(folder, packed, made.records, notes, stored)


def _recalled(
    plan: Plan, key: str, folder: Path, temporary: Path, build_store: BuildStore
) -> Package | None:
    """Return the package that an equal build has made, not placed yet; None if none was."""
    staging = _new_package(temporary)
    kept = recall(build_store.store, key, staging)
    if kept is None:
        shutil.rmtree(staging)
        return None
    records = tuple(kept.records())
    return Package(folder, plan, records, kept.notes, stored=len(records), recalled=True)


def _place(staging: Path, folder: Path, sources: SourceTree) -> None:
    """Move a finished package to its place, with what it states of its sources."""
    if sources.digests:
        path = staging / INDEX_NAME
        index = Index.open(path.read_bytes(), str(path))
        write_whole(path, index.with_header(**{SOURCES: dict(sources.digests)}))
    put_into_place(staging, folder)


def _new_package(temporary: Path) -> Path:
    """Return a new `_aot` folder to fill in a temporary one, to be moved to its place."""
    staging = temporary / FOLDER_NAME
    staging.mkdir(mode=0o755)
    (staging / BLOBS).mkdir()
    return staging


def _notes(done: Sequence[UnitDone]) -> tuple[str, ...]:
    """Return the notes of all units, each once: units of one trace share theirs."""
    texts = (f"{result.unit.signature_label}: {note}" for result in done for note in result.notes)
    return tuple(dict.fromkeys(texts))


def _drop_unused_blobs(folder: Path, records: Iterable[Record]) -> None:
    wanted = {blob.path for record in records for blob in record.blobs()}
    for path in (folder / BLOBS).iterdir():
        if f"{BLOBS}/{path.name}" not in wanted:
            path.unlink()
