"""The comparison: calls that were recorded or counted, with a package or a manifest."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Protocol

from aotbuild.coverage.result import Called, Compiled, Coverage, Serving
from aotbuild.coverage.signature import call_text
from aotbuild.format.layout import companions_of
from aotbuild.format.shard import shard_note
from aotbuild.format.sources import read_sources
from aotbuild.record.recording import RecordedCall, RecordedFunction, Recording, Tally
from aotbuild.report.words import plural


class ServingCalls(Protocol):
    """A package or a manifest."""

    place: str

    def serving(self, function: RecordedFunction, call: RecordedCall) -> tuple[str, Serving]:
        """Return the name of the function that has a call, and what serves it."""
        ...

    def compiled(self) -> Iterable[Compiled]:
        """Return all signatures that are compiled, or are to be."""
        ...


def compare(
    recording: Recording,
    there: ServingCalls,
    counted: Iterable[Called] = (),
    notes: Iterable[str] = (),
    *,
    count_operations: bool = False,
) -> Coverage:
    """Return what of the recorded calls is compiled, and of those that counters have."""
    called = [*_recorded(recording, there), *counted]
    served = {each.serving.key for each in called}
    unused = tuple(each for each in there.compiled() if each.key not in served)
    return Coverage(
        there.place,
        tuple(_ordered(_apart(called))),
        unused,
        _operations(recording),
        tuple(dict.fromkeys([*notes, *_damage(recording)])),
        count_operations,
    )


def changed_sources(recording: Recording, header: Mapping[str, Any]) -> Iterator[str]:
    """Yield which recorded functions are in files that were others when a package was built."""
    try:
        sources = read_sources(header)
    except ValueError:  # `aotbuild verify` says what is wrong
        return
    known = [*sources.files.items()] if sources else []
    told = set()
    for function in recording.functions.values():
        if not function.digest or function.problem:
            continue
        module = function.call.partition(":")[0].replace(".", "/")
        endings = (f"{module}.py", f"{module}/__init__.py")
        found = {digest for path, digest in known if _ends(path, endings)}
        if found and function.digest not in found and module not in told:
            told.add(module)
            yield (
                f"{function.call.partition(':')[0]} was another version when it was recorded: "
                "record again if its functions changed"
            )


def version_notes(recording: Recording, header: Mapping[str, Any]) -> Iterator[str]:
    """Yield which versions of jax were recorded, if a package is for others."""
    built_with = str(header.get("jax", ""))
    found = sorted({program.versions.get("jax", "") for program in recording.programs.values()})
    others = [version for version in found if version and version not in built_with.split(", ")]
    if others and built_with:
        yield f"recorded with jax {', '.join(others)}; the package is for jax {built_with}"


def part_notes(header: Mapping[str, Any]) -> Iterator[str]:
    """Yield what other wheels hold of a package that was split, or built in shards."""
    with suppress(ValueError):  # `aotbuild verify` says what is wrong
        for part, distribution in companions_of(header).items():
            yield f"executables for {part} are in {distribution}, which was not looked at"
    note = shard_note(header)
    if note:
        yield note


def _recorded(recording: Recording, there: ServingCalls) -> Iterator[Called]:
    for key, call in recording.calls.items():
        function = recording.functions.get(call.function)
        if function is None or function.is_operation:
            continue
        name, serving = there.serving(function, call)
        tally = recording.tallies.get(key, Tally())
        place = f"{function.file}:{function.line}" if function.file else ""
        yield Called(function.call, name, call_text(call), tally, serving, place)


def _damage(recording: Recording) -> Iterator[str]:
    count = sum(call.function not in recording.functions for call in recording.calls.values())
    if count:
        calls = plural(count, "recorded call")
        yield f"{calls} of functions that the recording lacks: not counted; record again"


def _apart(called: Iterable[Called]) -> list[Called]:
    """Join what is the same for people: recorded twice, by two versions of a function."""
    found: dict[tuple[str, str, str, tuple[str, ...]], Called] = {}
    for each in called:
        key = (each.function, each.signature, each.serving.key, each.serving.reasons)
        tally = each.tally + found[key].tally if key in found else each.tally
        found[key] = Called(
            each.function, each.name, each.signature, tally, each.serving, each.place
        )
    return [*found.values()]


def _ordered(called: Sequence[Called]) -> list[Called]:
    """Return the functions that cost most first, and the signatures of each likewise."""
    seconds: dict[str, tuple[float, int]] = {}
    for each in called:
        cost, calls = seconds.get(each.function, (0.0, 0))
        seconds[each.function] = cost + each.tally.seconds, calls + each.tally.calls
    return sorted(
        called,
        key=lambda each: (
            *(-number for number in seconds[each.function]),
            each.function,
            -each.tally.seconds,
            -each.tally.calls,
            each.signature,
        ),
    )


def _operations(recording: Recording) -> tuple[int, Tally]:
    functions = [f for f in recording.functions.values() if f.is_operation]
    calls = [key for function in functions for key in recording.of(function.key)]
    return len(calls), recording.tally(calls)


def _ends(path: str, endings: Iterable[str]) -> bool:
    return any(path == ending or path.endswith(f"/{ending}") for ending in endings)
