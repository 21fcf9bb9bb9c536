"""Joining shards: from the results of all of them to what one build of everything makes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

from aotbuild.build.assemble import Assembled, assemble
from aotbuild.build.pack import finish, new_package
from aotbuild.build.placing import behind_links, workplace
from aotbuild.build.results import PlanFacts, ShardFile
from aotbuild.errors import BuildError, WheelRefused
from aotbuild.format.canonical import sha256_hex
from aotbuild.format.files import naming
from aotbuild.format.index import Index
from aotbuild.format.layout import BESIDE, HEADER_KEY, packaged_blobs
from aotbuild.format.record import Blob, Record
from aotbuild.format.shard import SHARD, SHARD_NAME, Shard, ShardHeader, read_shard
from aotbuild.format.sources import SourceDigests
from aotbuild.runtime.blobs import read_blob
from aotbuild.runtime.source import DirectorySource, open_index
from aotbuild.runtime.stages import open_stages, read_stage
from aotbuild.wheels.agreement import Built, disagreements

if TYPE_CHECKING:
    from aotbuild.runtime.stages import StagesFile

_SHOWN = 5
_REMEDY = "Build the shard again."
_ALL_SHARDS = "Give one build of each shard; build those that are missing."
_ONE_PLAN = (
    "Build all shards from the same sources and data files, with the same manifest, versions and "
    "targets."
)
_ONE_SPLIT = (
    "Build all of them as shards of one number. Shares are balanced by the times in the store, so "
    "shards take one store (AOTBUILD_STORE), or AOTBUILD_TIMES=off, which counts units alone."
)
_ONE_PROGRAM = "Correct the function, and build the shards again."


class Readable(Protocol):
    """What has the files of a shard."""

    def read(self, name: str, /) -> bytes:
        """Return the bytes of a file; OSError if it cannot be read."""


@dataclass(frozen=True)
class Part:
    """A shard, as it was read: where it is, which one it is, its results, and its files."""

    place: str
    header: ShardHeader
    file: ShardFile
    source: Readable

    @property
    def shard(self) -> Shard:
        """Which shard it is."""
        return self.header.shard

    def __str__(self) -> str:
        return f"{self.place}, shard {self.shard}"


def read_part(place: str, source: Readable, index: Index) -> Part:
    """Read the results of a shard; WheelRefused for what is not one, or is damaged."""
    problem = "not a shard" if SHARD not in index.header else "its results cannot be read"
    remedy = "`aotbuild build --shard` makes shards." if SHARD not in index.header else _REMEDY
    try:
        header = read_shard(index.header)
        if header is None:
            raise WheelRefused(place, problem, ["it is a whole package"], remedy)
        data = source.read(SHARD_NAME)
        file = ShardFile.from_bytes(data)
        found = (sha256_hex(data), file.plan, file.split)
        if found != (header.results, header.plan, header.split):
            msg = f"expected SHA-256 {header.results}, found {found[0]}"
            raise ValueError(msg)
        _check_share(file, header.shard)
    except (OSError, ValueError) as err:
        raise WheelRefused(place, problem, [str(err)], remedy) from err
    return Part(place, header, file, source)


def _check_share(file: ShardFile, shard: Shard) -> None:
    """Raise ValueError if the file's units are shared out otherwise than its header says."""
    if not all(1 <= number <= shard.of for number in file.shards):
        msg = f"expected numbers of shards from 1 to {shard.of}"
        raise ValueError(msg)
    for unit in (result.unit for result in file.results):
        if file.shards[unit.number] != shard.number:
            msg = f"{unit.label} belongs to shard {file.shards[unit.number]}"
            raise ValueError(msg)


def join_shards(parts: Sequence[Part]) -> Assembled:
    """Return what one build of everything would have made.

    WheelRefused with every reason why the shards are not exactly one package, BuildError for units
    that contradict each other, or that failed.
    """
    parts = sorted(_different(parts), key=lambda part: part.shard.number)
    places = ", ".join(part.place for part in parts)
    for find, remedy in (
        (_other_plans, _ONE_PLAN),
        (_other_splits, _ONE_SPLIT),
        (_gaps, _ALL_SHARDS),
        (_other_programs, _ONE_PROGRAM),
    ):
        if problems := list(find(parts)):
            raise WheelRefused(places, "these shards are not one package", problems, remedy)
    results = [result for part in parts for result in part.file.results]
    results.sort(key=lambda result: result.unit.number)
    made = assemble(parts[0].file.facts, results, _sources(parts))
    keep_going = all(part.file.keep_going for part in parts)
    if made.failures and not (keep_going and made.done):
        raise BuildError(made.failures, made.total)
    return made


def _different(parts: Iterable[Part]) -> list[Part]:
    """Return the parts without those that are the same as another one."""
    first: dict[ShardHeader, Part] = {}
    for part in parts:
        first.setdefault(part.header, part)
    return list(first.values())


_CONTENT = "what the manifest and the files that it names say"


def _other_plans(parts: Sequence[Part]) -> Iterator[str]:
    """Yield how each shard's plan differs from the first."""
    first = parts[0]
    for part in parts[1:]:
        if part.header.plan != first.header.plan:
            differences = list(_differences(part.file, first.file))
            shown = "".join(f"\n  {line}" for line in differences[:_SHOWN])
            yield f"{part} is of another plan than {first}:{shown}"
    yield from _other_files(parts, lambda file: file.sources.files)
    yield from _other_files(parts, lambda file: {_CONTENT: file.sources.content or ""})


def _differences(file: ShardFile, first: ShardFile) -> Iterator[str]:
    for name in (each.name for each in fields(PlanFacts)):
        found, expected = getattr(file.facts, name), getattr(first.facts, name)
        if name == "toolchains":
            found, expected = ("; ".join(text for *_, text in each) for each in (found, expected))
        if found != expected:
            yield f"{name}: expected {expected}, found {found}"
    missing = [label for label in first.units if label not in set(file.units)]
    added = [label for label in file.units if label not in set(first.units)]
    yield from _some("without", missing)
    yield from _some("only there:", added)


def _other_files(
    parts: Sequence[Part], files_of: Callable[[ShardFile], Mapping[str, str]]
) -> Iterator[str]:
    """Yield the files that are not the same in two shards that used them."""
    first: dict[str, tuple[str, Part]] = {}
    for part in parts:
        for name, digest in sorted(files_of(part.file).items()):
            expected, other = first.setdefault(name, (digest, part))
            if digest != expected:
                yield f"{part}: {name} is not the one of {other}"


def _other_splits(parts: Sequence[Part]) -> Iterator[str]:
    """Yield the shards that do not agree which shard has which unit."""
    groups: dict[tuple[int, str], list[Part]] = {}
    for part in parts:
        groups.setdefault((part.shard.of, part.header.split), []).append(part)
    if len(groups) == 1:
        return
    for group in groups.values():
        shards = ", ".join(str(part.shard) for part in group)
        yield f"{shards} {'agree' if len(group) > 1 else 'agrees with no other shard'}"
    built = [result.unit.label for part in parts for result in part.file.results]
    yield from _some("built by none of them:", [u for u in parts[0].file.units if u not in built])


def _gaps(parts: Sequence[Part]) -> Iterator[str]:
    """Yield shards that are missing, are there in two builds, or lack a unit."""
    first = parts[0]
    by_number: dict[int, list[Part]] = {}
    for part in parts:
        by_number.setdefault(part.shard.number, []).append(part)
    for number in range(1, first.shard.of + 1):
        group, shard = by_number.get(number, []), Shard(number, first.shard.of)
        pairs = zip(first.file.shards, enumerate(first.file.units), strict=True)
        units = dict(unit for owner, unit in pairs if owner == number)
        if not group:
            names = "".join(f" ({text})" for text in _some("it has", [*units.values()]))
            yield f"shard {shard} is missing{names}: aotbuild build --shard {shard}"
        elif len(group) > 1:
            yield f"shard {shard} is there in {len(group)} builds that differ: " + ", ".join(
                part.place for part in group
            )
        else:
            found = {result.unit.number for result in group[0].file.results}
            lost = [label for place, label in units.items() if place not in found]
            yield from (f"{group[0]}: {text}" for text in _some("no result of", lost))


def _other_programs(parts: Sequence[Part]) -> Iterator[str]:
    """Yield the signatures whose targets were traced to other programs by other shards."""
    yield from disagreements(
        [
            Built(str(part), [r.record for r in part.file.results if r.record], part.source.read)
            for part in parts
        ]
    )


def _some(words: str, names: Sequence[str]) -> Iterator[str]:
    more = len(names) - _SHOWN
    if names:
        yield f"{words} {', '.join(names[:_SHOWN])}{f' and {more} more' if more > 0 else ''}"


def _sources(parts: Sequence[Part]) -> SourceDigests:
    """Return the files that all shards imported."""
    first = parts[0].file.sources
    files = {name: digest for part in parts for name, digest in part.file.sources.files.items()}
    rest = (first.import_root, first.manifest, first.content)
    return SourceDigests(dict(sorted(files.items())), *rest)


# --- folders --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class JoinedFolder:
    """The `_aot` folder that was written, the file of kept stages beside it, and its contents."""

    folder: Path
    made: Assembled
    stages: Path | None = None


def merge_folders(folders: Sequence[Path], out: Path) -> JoinedFolder:
    """Write the `_aot` folder that shards make together, replacing what is there.

    Raises what `join_shards` does, and DamagedBlob if a blob is not what the build made.
    """
    sources = [DirectorySource(folder) for folder in dict.fromkeys(folders)]
    indexes = [open_index(source) for source in sources]
    made = join_shards(
        [read_part(s.place, s, index) for s, index in zip(sources, indexes, strict=True)]
    )
    out = behind_links(out)
    with workplace(out) as temporary:
        staging = new_package(temporary)
        for blob in {b for record in made.records for b in packaged_blobs(record, made.header)}:
            with naming(out):
                (staging / blob.path).write_bytes(read_blob(_holding(sources, blob), blob))
        if made.header.get(HEADER_KEY) == BESIDE:
            headers = [index.header for index in indexes]
            _put_stages(staging, made.records, zip(sources, headers, strict=True))
        stages = finish(staging, out, made, made.records)
    return JoinedFolder(out, made, stages)


def _holding(sources: Sequence[DirectorySource], blob: Blob) -> DirectorySource:
    """Return the source that has a blob; the first if none has it."""
    return next((s for s in sources if Path(s.place, blob.path).is_file()), sources[0])


def _put_stages(
    staging: Path,
    records: Iterable[Record],
    shards: Iterable[tuple[DirectorySource, dict[str, Any]]],
) -> None:
    """Write the kept stages of all records into `staging`; StagesNotFound if a file is missing."""
    wanted = {blob.path: blob for record in records for _, blob in record.stages}
    for source, header in shards:
        if header.get(HEADER_KEY) != BESIDE:
            continue
        with open_stages(source, header) as file:
            for path in wanted.keys() & set(cast("StagesFile", file).names()):
                with naming(staging / path):
                    (staging / path).write_bytes(read_stage(file, wanted[path]))
