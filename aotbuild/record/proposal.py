"""From a call log to a manifest: a new one, or entries for an existing one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aotbuild.errors import ProjectError
from aotbuild.format.canonical import canonical_json
from aotbuild.format.target import HOST
from aotbuild.format.words import plural
from aotbuild.record.call_log import CallLog, ObservedFunction, Tally
from aotbuild.record.entries import Entry, Seen, entries_for, seen_of
from aotbuild.record.init import function_name, functions_in
from aotbuild.record.manifest_text import (
    cost,
    function_lines,
    manifest_files,
    manifest_text,
    read_text,
)
from aotbuild.record.specs import TODO

_SITES = frozenset({"site-packages", "dist-packages"})


@dataclass(frozen=True)
class LeftOut:
    """Calls that no manifest can have: the function, what they cost, and why."""

    function: ObservedFunction
    tally: Tally
    reason: str

    def __str__(self) -> str:
        place = f"{self.function.file}:{self.function.line}: " if self.function.file else ""
        calls = f"{plural(self.tally.calls, 'call')}, {self.tally.seconds:,.1f} s of first calls"
        return f"left out: {place}{self.function.call}: {calls}\n  {self.reason}"


@dataclass(frozen=True)
class Proposal:
    """The manifest of a call log, and what people are told of it. Nothing is written yet.

    Attributes:
        manifest: The path of the manifest.
        is_new: Whether there is no such file; one that is there stays as it is.
        package: The import package that it is for.
        entries: The entries for what was called, by name.
        left_out: What no manifest can have.
        notes: What else people should know.
    """

    manifest: Path
    is_new: bool
    package: str
    entries: Mapping[str, Entry]
    left_out: tuple[LeftOut, ...]
    notes: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The text of a new manifest, or the entries for an existing one."""
        entries = self.entries.items()
        lines = [line for name, e in entries for line in ("", *function_lines(name, e))][1:]
        return manifest_text(self.package, lines) if self.is_new else "\n".join(lines) + "\n"

    @property
    def files(self) -> dict[Path, str]:
        """The files to write."""
        return manifest_files(self.manifest, self.text) if self.is_new else {}

    @property
    def lines(self) -> Iterator[str]:
        """What people are told."""
        for name, entry in self.entries.items():
            yield f"{'added' if self.is_new else 'called'} {name}: {cost(entry)}"
            yield from (f"  {note}" for note in entry.notes)
            yield from (f"  {TODO}: {todo}" for todo in entry.todos)
        yield from map(str, self.left_out)
        yield from self.notes
        if self.entries and not self.is_new:
            yield f"\n{self.manifest} stays as it is. Entries for what was called:\n\n{self.text}"

    def to_json(self) -> dict[str, Any]:
        """Return the proposal as plain data."""
        return {
            "manifest": str(self.manifest),
            "new": self.is_new,
            "functions": [
                {
                    **_costs(entry.function, entry.tally),
                    "name": name,
                    "signatures": len(entry.seen),
                    "notes": [*entry.notes],
                    "todos": [*entry.todos],
                }
                for name, entry in self.entries.items()
            ],
            "left_out": [
                {**_costs(each.function, each.tally), "reason": each.reason}
                for each in self.left_out
            ],
            "text": self.text,
        }


def _costs(function: ObservedFunction, tally: Tally) -> dict[str, Any]:
    """Return where a function is and what its calls cost, as plain data."""
    facts = {"call": function.call, "file": function.file, "line": function.line}
    return {**facts, "calls": tally.calls, "first_call_seconds": tally.seconds}


def propose(log: CallLog, manifest: Path, package: str = "") -> Proposal:
    """Return the manifest that has all calls of a log that a manifest can have.

    `package` is that of a new manifest, guessed if it is empty.

    Functions of an existing one keep their names. ProjectError if there is nothing for a manifest,
    OSError if the existing one cannot be read.
    """
    before = read_text(manifest)
    stated, known = functions_in(before or "")
    package = stated or package or _package(log, manifest.parent)
    draft = _Draft(known, package)
    seconds = {key: log.tally(log.of(key)).seconds for key in log.functions}
    for key in sorted(seconds, key=seconds.__getitem__, reverse=True):
        draft.add(log, log.functions[key])
    if before is None and not draft.entries:
        found = "".join(f"\n  {line}" for e in draft.left_out for line in str(e).split("\n"))
        problem = f"no manifest can have what was recorded{found}"
        remedy = "Record a program that calls jitted functions of your package."
        raise ProjectError(str(manifest), problem, remedy)
    platforms = {call.platform for call in log.calls.values()} - {"", HOST}
    notes = [f"it ran on {name}; add it to targets:" for name in sorted(platforms)]
    left_out = tuple(draft.left_out)
    return Proposal(manifest, before is None, package, draft.entries, left_out, tuple(notes))


@dataclass
class _Draft:
    """Collects what a manifest gets; `known` are the functions that it has, name to call."""

    known: dict[str, str]
    package: str
    entries: dict[str, Entry] = field(default_factory=dict)
    left_out: list[LeftOut] = field(default_factory=list)

    def add(self, log: CallLog, function: ObservedFunction) -> None:
        """Add the calls of a function."""
        seen = _seen(log, function)
        if reason := function.problem or _library(function, self.package):
            self.left_out.append(LeftOut(function, _sum(seen), reason))
            return
        for reason in dict.fromkeys(each.problem for each in seen if each.problem):
            some = [each for each in seen if each.problem == reason]
            self.left_out.append(LeftOut(function, _sum(some), reason))
        for entry in entries_for(function, [each for each in seen if not each.problem]):
            same = (name for name, call in self.known.items() if call == function.call)
            name = next((name for name in same if name not in self.entries), "")
            taken = {*self.entries, *self.known}
            self.entries[name or function_name(function.call, taken)] = entry


def _seen(log: CallLog, function: ObservedFunction) -> list[Seen]:
    """Return each signature once: several platforms may have it."""
    found: dict[bytes, Seen] = {}
    for key, call in log.of(function.key).items():
        each = seen_of(log, key, call)
        arguments = [[argument.name, argument.spec] for argument in call.arguments]
        same = canonical_json([each.options, each.problem, arguments, call.statics])
        if before := found.get(same):
            each = Seen(each.call, each.statics, each.tally + before.tally, each.problem)
        found[same] = each
    return [*found.values()]


def _sum(seen: list[Seen]) -> Tally:
    return sum((each.tally for each in seen), Tally())


def _library(function: ObservedFunction, package: str) -> str:
    """Return why a function of an installed package is left out; empty for one's own."""
    if _SITES.isdisjoint(Path(function.file).parts) or function.package == package.split(".")[0]:
        return ""
    return (
        f"it is in {function.package}: call what leads to it inside a jitted function of your "
        "package"
    )


def _package(log: CallLog, folder: Path) -> str:
    """Return the package whose functions were called: one of the project, if there is any."""
    named = [each for each in log.functions.values() if not each.problem]
    own = [each for each in named if _SITES.isdisjoint(Path(each.file).parts)]
    tops = [*dict.fromkeys(each.package for each in (*own, *named))]
    here = [t for t in tops if any((folder / p / t / "__init__.py").is_file() for p in ("", "src"))]
    return next(iter([*here, *tops]), "package")
