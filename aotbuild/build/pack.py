"""Build a plan into a finished `_aot/` folder, whole or not at all; the size of its files."""

from __future__ import annotations

import io
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from aotbuild.build.embedded import embedded_in, embedded_notes, size_remedy
from aotbuild.build.executors.local import run_units
from aotbuild.build.left_out import left_out
from aotbuild.build.plan import Plan
from aotbuild.build.progress import Listener, UnitDone, ignore
from aotbuild.build.result_types import result_type_notes
from aotbuild.build.sources import SourceTree, TracedFiles
from aotbuild.errors import BuildError, UnitFailure, listing
from aotbuild.spec.about import About, join_abouts
from aotbuild.spec.index import FOLDER_NAME, INDEX_NAME, write_index
from aotbuild.spec.layout import (
    BESIDE,
    HEADER_KEY,
    PYPI_LIMIT,
    packaged_blobs,
    stages_path,
    write_whole,
)
from aotbuild.spec.left_out import AllLeftOut, left_out_header
from aotbuild.spec.record import Record
from aotbuild.spec.signature import Function

_CHUNK = 1 << 20
_EDITED = "{} was edited while it was compiled: build again"
# The stage of failures that are found when all units are compiled.
STAGE = "pack"
# For the zip of kept stages: the earliest time it can hold, Unix, and rw-r--r--.
_EPOCH = (1980, 1, 1, 0, 0, 0)
_UNIX = 3
_MODE = 0o644


@dataclass(frozen=True)
class Package:
    """A finished `_aot` folder, and notes for whoever builds it.

    `plan` has the units that are in the folder, also those that `feedback:` added, and `records`
    theirs. `failures` are of the units that were left out. `stages` is the file of kept stages
    beside the folder, if the manifest asks for one. `size_remedy` ends a note about the size.
    """

    folder: Path
    plan: Plan
    records: tuple[Record, ...]
    notes: tuple[str, ...] = ()
    stages: Path | None = None
    failures: tuple[UnitFailure, ...] = ()
    size_remedy: str = ""

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
) -> Package:
    """Compile a plan into `folder`, replacing what is there; BuildError if any unit failed.

    With `keep_going`, units that failed are left out, and BuildError is raised only if all failed.
    The environments of its toolchains must exist (`make_environments`). Nothing is written to
    `folder` until everything succeeded. The file of kept stages beside it is of this build, or
    removed. `jobs` is that of `run_units`.
    """
    with _workplace(folder) as temporary:
        staging = temporary / FOLDER_NAME
        staging.mkdir(mode=0o755)
        traced = TracedFiles()
        run = run_units(plan, sources, staging, listener, jobs=jobs, traced=traced)
        everything = _different(run)
        failed = [*(d for d in everything if d.failure), *_conflicts(everything)]
        failures = tuple(d.failure for d in failed if d.failure)
        done = _others(everything, failed)
        if failures and not (keep_going and done):
            raise BuildError(failures, len(everything))
        plan = _reduced(plan, done, failed)
        records = tuple(d.record for d in done if d.record)
        # Those of units that succeeded come last: they alone know how calls are padded.
        functions = join_functions(d.function for d in (*failed, *done) if d.function)
        header = {
            **_header(plan, records),
            **_left_out(plan, sources, failed),
            **traced.digests(sources, plan.manifest).to_header(),
        }
        stages = temporary / "stages"
        if header.get(HEADER_KEY) == BESIDE:
            write_stages(stages, staging, records)
        _drop_unused_blobs(staging, records, header)
        (staging / INDEX_NAME).write_bytes(write_index(header, functions, records))
        stages_path(folder).unlink(missing_ok=True)
        _replace(staging, folder)
        if stages.exists():
            stages.rename(stages_path(folder))
    kept = stages_path(folder) if header.get(HEADER_KEY) == BESIDE else None
    embedded = embedded_in(done)
    edited = map(_EDITED.format, sorted(traced.changed))
    types = _result_type_notes(plan, sources, records)
    notes = (*_notes(done), *embedded_notes(embedded), *types, *edited)
    return Package(folder, plan, records, notes, kept, failures, size_remedy(embedded))


def _result_type_notes(plan: Plan, sources: SourceTree, records: Iterable[Record]) -> Iterator[str]:
    """Yield notes on results that a wheel returns only where jax is, if it does not require jax."""
    if plan.manifest.runtime == "jaxlib":
        interpreter = plan.units[0].toolchain.interpreter
        yield from result_type_notes(records, sources.import_root, interpreter)


def _different(done: list[UnitDone]) -> list[UnitDone]:
    """Drop units that feedback added and that have the signature of another one."""
    # Units of the plan first: two of them with one signature are a mistake.
    first: dict[tuple[str, ...], int] = {}
    for result in sorted(done, key=lambda d: bool(d.unit.fed_back)):
        if result.record:
            first.setdefault(_identity(result.record), id(result))
    unique = {*first.values()}
    return [d for d in done if not d.record or not d.unit.fed_back or id(d) in unique]


def _identity(record: Record) -> tuple[str, ...]:
    """Return what a call can tell a record by."""
    jaxlib = str(record.requires.jaxlib)
    return record.function, record.signature.key(), str(record.target), jaxlib


def _others(everything: list[UnitDone], failed: list[UnitDone]) -> list[UnitDone]:
    """Return the results of the units that did not fail."""
    # By identity: to Python, units with the static values 1 and True are equal.
    gone = {id(d.unit) for d in failed}
    return [d for d in everything if id(d.unit) not in gone]


def _reduced(plan: Plan, done: list[UnitDone], failed: list[UnitDone]) -> Plan:
    """Return a plan without the units that failed, and without toolchains that made nothing."""
    idle = {d.unit.toolchain for d in failed} - {d.unit.toolchain for d in done}
    toolchains = tuple(t for t in plan.environment.toolchains if t not in idle)
    environment = replace(plan.environment, toolchains=toolchains)
    return replace(plan, units=tuple(d.unit for d in done), environment=environment)


def _left_out(plan: Plan, sources: SourceTree, failed: list[UnitDone]) -> dict[str, Any]:
    """Return what the header of the index says of units that failed, each once."""
    first = {id(d.unit): d for d in reversed(failed)}
    secrets = _secrets(plan, sources)
    return left_out_header(AllLeftOut(tuple(left_out(d, secrets) for d in first.values())))


def _secrets(plan: Plan, sources: SourceTree) -> list[str]:
    """Return the folders of this machine that errors may name."""
    environments = [toolchain.interpreter for toolchain in plan.environment.toolchains]
    prefixes = [str(interpreter.parent.parent) for interpreter in environments if interpreter]
    here = [sys.prefix, sys.base_prefix, str(Path("~").expanduser()), tempfile.gettempdir()]
    return [str(sources.root), *here, *prefixes]


def join_functions(functions: Iterable[Function]) -> list[Function]:
    """Return the last function of each name, with what all know of its static data."""
    same: dict[str, list[Function]] = {}
    for function in functions:
        same.setdefault(function.name, []).append(function)
    # A process that traces several functions meets what the first of them changed.
    aliases = {pair for group in same.values() for each in group for pair in each.aliases}
    return [_join(group, sorted(aliases)) for group in same.values()]


def _join(functions: list[Function], aliases: list[tuple[str, str]]) -> Function:
    facts = {fact.digest: fact for function in functions for fact in function.facts}
    return replace(
        functions[-1],
        facts=tuple(facts[digest] for digest in sorted(facts)),
        aliases=tuple(pair for pair in aliases if pair[1] in facts),
        references=tuple(sorted({each for function in functions for each in function.references})),
        about=join_abouts(About.of(function.about) for function in functions).to_json(),
    )


def _header(plan: Plan, records: tuple[Record, ...]) -> dict[str, Any]:
    is_kept = any(record.stages for record in records)
    toolchains = plan.environment.toolchains
    return {
        "aotbuild": plan.environment.aotbuild,
        "fallback": plan.manifest.fallback,
        "jax": ", ".join(dict.fromkeys(t.jax for t in toolchains)),
        "jaxlib": ", ".join(dict.fromkeys(t.jaxlib for t in toolchains)),
        "package": plan.manifest.package,
        **({HEADER_KEY: plan.manifest.keep.where} if is_kept else {}),
    }


def _notes(done: list[UnitDone]) -> tuple[str, ...]:
    """Return the notes of all units, each once: units of one trace share theirs."""
    texts = (f"{result.unit.signature_label}: {note}" for result in done for note in result.notes)
    return tuple(dict.fromkeys(texts))


def _conflicts(done: list[UnitDone]) -> Iterator[UnitDone]:
    """Yield as failed a unit that calls could not tell from another, or would pad differently."""
    yield from _pad_conflicts(done)
    yield from _ignored_conflicts(done)
    seen: dict[tuple[str, ...], UnitDone] = {}
    for result in done:
        if result.record is None:
            continue
        key = _identity(result.record)
        if key in seen:
            message = f"has the same signature as {seen[key].unit}; remove one of them"
            yield result.failed(STAGE, message)
        seen.setdefault(key, result)


def _ignored_conflicts(done: list[UnitDone]) -> Iterator[UnitDone]:
    """Yield as failed the units in whose trees `static_data:` leads to other places."""
    first: dict[str, UnitDone] = {}
    for result in done:
        if result.record is None or result.function is None:
            continue
        known = first.setdefault(result.function.name, result)
        if known.function and known.function.ignored != result.function.ignored:
            message = f"static_data: leads elsewhere in {known.unit}\nMake two functions of it."
            yield result.failed(STAGE, message)


def _pad_conflicts(done: list[UnitDone]) -> Iterator[UnitDone]:
    """Yield as failed the units whose arrays have their padded dims in other places."""
    first: dict[str, UnitDone] = {}
    for result in done:
        if result.record is None or result.function is None or result.function.pad is None:
            continue
        known = first.setdefault(result.function.name, result).function
        # Compared as JSON: a NaN to pad with does not equal itself.
        if known is None or known.to_json()["pad"] != result.function.to_json()["pad"]:
            other = first[result.function.name].unit
            message = (
                f"pad: the trees differ from those of {other}: another number of arrays, or axes "
                "that are another dim\nMake two functions of it, or leave pad out."
            )
            yield result.failed(STAGE, message)


def _drop_unused_blobs(folder: Path, records: tuple[Record, ...], header: dict[str, Any]) -> None:
    wanted = {blob.path for record in records for blob in packaged_blobs(record, header)}
    for path in (folder / "blobs").iterdir():
        if f"blobs/{path.name}" not in wanted:
            path.unlink()


@contextmanager
def _workplace(folder: Path) -> Iterator[Path]:
    """Yield a temporary folder beside `folder`; remove parents made for it if they stay empty."""
    made = [parent for parent in folder.parents if not parent.exists()]
    folder.parent.mkdir(parents=True, exist_ok=True)
    try:
        with tempfile.TemporaryDirectory(prefix=".aotbuild-", dir=folder.parent) as temporary:
            yield Path(temporary)
    finally:
        for parent in made:
            if not any(parent.iterdir()):
                parent.rmdir()


def _replace(staging: Path, folder: Path) -> None:
    """Move a finished folder into place, and the old one out of the way first, whole."""
    if folder.exists():
        folder.rename(staging.parent / "replaced")
    staging.rename(folder)


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


def size_note(size: int, what: str, remedy: str = "") -> str | None:
    """Return a note about a wheel of that many bytes; None if it is small enough.

    It ends with `remedy`, that of a package.
    """
    if size <= PYPI_LIMIT:
        return None
    return (
        f"{what} has {size / 1e6:.0f} MB; PyPI's default limit for one file is 100 MB. "
        f"`aotbuild split` makes a base wheel and one for each family of targets{remedy}"
    )


def compressed_size(files: Iterable[Path]) -> int:
    """Return the bytes that files take in a wheel; compress them only if that could matter."""
    files = list(files)
    plain = sum(file.stat().st_size for file in files)
    return plain if plain <= PYPI_LIMIT else sum(map(_deflated, files))


def _deflated(file: Path) -> int:
    # Raw deflate at the default level, as zipfile and hatchling do.
    packer, size = zlib.compressobj(wbits=-zlib.MAX_WBITS), 0
    with file.open("rb") as opened:
        while chunk := opened.read(_CHUNK):
            size += len(packer.compress(chunk))
    return size + len(packer.flush())
