"""Build a plan into a finished `_aot/` folder, whole or not at all."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from aotbuild.build.assemble import Assembled, assemble
from aotbuild.build.events import Listener, UnitDone, ignore
from aotbuild.build.inputs import Inputs
from aotbuild.build.kept import keep, recall
from aotbuild.build.placing import behind_links, put_into_place, workplace
from aotbuild.build.plan import Plan
from aotbuild.build.run_units import LOCAL, chosen_executor, run_units
from aotbuild.build.sources import SourceTree, TracedFiles
from aotbuild.errors import BuildError, SourcesEdited
from aotbuild.format.files import write_whole
from aotbuild.format.index import FOLDER_NAME, INDEX_NAME, write_index
from aotbuild.format.layout import BLOBS
from aotbuild.format.record import Record
from aotbuild.store.build_store import BuildStore, Counts, open_store


@dataclass(frozen=True)
class Origins:
    """Where units came from: the store or the compiler.

    `recalled` says that nothing was traced, because an equal build was kept.
    """

    stored: int = 0
    compiled: int = 0
    recalled: bool = False

    @staticmethod
    def of(done: Sequence[UnitDone]) -> Origins:
        """Count the results of units."""
        stored = sum(result.stored for result in done)
        return Origins(stored, len(done) - stored)

    def __str__(self) -> str:
        """Say it for people, as `64 units: 60 from the store, 4 compiled`."""
        unchanged = ", as nothing has changed" if self.recalled else ""
        counts = (
            (self.stored, f"from the store{unchanged}"),
            (self.compiled, "compiled"),
        )
        total = self.stored + self.compiled
        parts = ", ".join(f"{count} {words}" for count, words in counts if count)
        return f"{total} {'unit' if total == 1 else 'units'}: {parts}"


@dataclass(frozen=True)
class Package:
    """A finished `_aot` folder, and notes for whoever builds it.

    `plan` has the units that are in the folder, also those that `feedback:` added, and `records`
    theirs. `store` says what the store was good for, and `origins` where the units came from.
    """

    folder: Path
    plan: Plan
    records: tuple[Record, ...]
    notes: tuple[str, ...] = ()
    store: Counts = field(default_factory=Counts)
    origins: Origins = field(default_factory=Origins)

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
    executor: str | None = None,
    fresh: bool = False,
) -> Package:
    """Compile a plan into `folder`, replacing what is there; BuildError if any unit failed.

    What an equal build made is taken from the store (`build.inputs` says what decides it), unless
    `fresh` asks for a trace of every function. SourcesEdited, another BuildError, if a file was
    edited while it was compiled.

    The environments of its toolchains must exist (`make_environments`). Nothing is written to
    `folder` until everything succeeded. `jobs` and `executor` are those of `run_units`. At last,
    what was made is written back to what is behind the folder of the store, even if some units
    failed.
    """
    build_store = open_store(os.environ)
    try:
        package = _packed(
            *(plan, sources, behind_links(folder), listener, jobs, executor),
            fresh=fresh,
            build_store=build_store,
        )
    except BuildError:
        build_store.push()
        raise
    build_store.push()
    return replace(package, store=build_store.counts)


def _packed(
    plan: Plan,
    sources: SourceTree,
    folder: Path,
    listener: Listener,
    jobs: int | None,
    executor: str | None,
    *,
    fresh: bool,
    build_store: BuildStore,
) -> Package:
    with workplace(folder) as temporary:
        inputs = Inputs(plan, sources, tuple(filter(None, (folder, temporary, build_store.front))))
        # Other machines are not in the key.
        is_keyed = build_store.front is not None and chosen_executor(executor) == LOCAL
        key = inputs.key(inputs.files) if is_keyed else None
        if key and not fresh and (found := _recalled(plan, key, folder, temporary, build_store)):
            for unit, record in zip(plan.units, found.records, strict=True):
                listener(UnitDone(unit, record=record, stored=True))
            return found
        staging = new_package(temporary)
        traced = TracedFiles()
        run = run_units(
            *(plan, sources, staging, listener, executor),
            jobs=jobs,
            traced=traced,
            build_store=build_store,
        )
        files = traced.digests(sources, plan.manifest, inputs.files)
        made = assemble(plan, run, files)
        # First: two traces differ if a module was edited between them.
        if edited := inputs.edited_modules() if made.failures else inputs.edited(files):
            raise SourcesEdited(edited, made.failures)
        if made.failures:
            raise BuildError(made.failures, made.total)
        finish(staging, folder, made)
        done, notes = made.done, _notes(made.done)
        may_be_kept = _may_be_kept(plan, done, notes, _secrets(plan, sources))
        # Not if a file was edited meanwhile.
        if key and may_be_kept and inputs.key(inputs.files_now()) == key:
            keep(build_store.store, key, folder, made.records, traced.stored, notes)
        packed = replace(plan, units=tuple(each.unit for each in done))
        return Package(folder, packed, made.records, notes, origins=Origins.of(done))


def _may_be_kept(
    plan: Plan,
    done: Sequence[UnitDone],
    notes: Iterable[str],
    secrets: Iterable[str],
) -> bool:
    """Return whether another build with the same inputs would give the same package and notes.

    Not where a result may be another next time, and not if a note names a path.
    """
    is_whole = len(done) == len(plan.units)  # `feedback:` adds units
    is_local = any(secret in note for secret in secrets for note in notes)
    return is_whole and not is_local and not any(each.transient for each in done)


def _recalled(
    plan: Plan, key: str, folder: Path, temporary: Path, build_store: BuildStore
) -> Package | None:
    """Return the package that an equal build has made, written to its folder; None if none was."""
    staging = new_package(temporary)
    kept = recall(build_store.store, key, staging)
    if kept is None:
        shutil.rmtree(staging)
        return None
    put_into_place(staging, folder)
    records = tuple(kept.records())
    origins = Origins(stored=len(records), recalled=True)
    return Package(folder, plan, records, kept.notes, origins=origins)


def new_package(temporary: Path) -> Path:
    """Return a new `_aot` folder to fill in a temporary one, which `finish` moves to its place."""
    staging = temporary / FOLDER_NAME
    staging.mkdir(mode=0o755)
    (staging / BLOBS).mkdir()
    return staging


def finish(staging: Path, folder: Path, made: Assembled) -> None:
    """Write the index beside the blobs in `staging`, and move it all to `folder`."""
    _drop_unused_blobs(staging, made.records)
    write_whole(staging / INDEX_NAME, write_index(made.header, made.functions, made.records))
    put_into_place(staging, folder)


def _secrets(plan: Plan, sources: SourceTree) -> list[str]:
    """Return the folders of this machine that notes may name."""
    environments = [toolchain.interpreter for toolchain in plan.environment.toolchains]
    prefixes = [str(interpreter.parent.parent) for interpreter in environments if interpreter]
    here = [sys.prefix, sys.base_prefix, str(Path("~").expanduser()), tempfile.gettempdir()]
    return [str(sources.root), *here, *prefixes]


def _notes(done: Sequence[UnitDone]) -> tuple[str, ...]:
    """Return the notes of all units, each once: units of one trace share theirs."""
    texts = (f"{result.unit.signature_label}: {note}" for result in done for note in result.notes)
    return tuple(dict.fromkeys(texts))


def _drop_unused_blobs(folder: Path, records: Iterable[Record]) -> None:
    wanted = {blob.path for record in records for blob in record.blobs()}
    for path in (folder / BLOBS).iterdir():
        if f"{BLOBS}/{path.name}" not in wanted:
            path.unlink()
