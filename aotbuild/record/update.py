"""From a call log to a manifest: a new one, or an existing one with the functions that it lacks."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aotbuild.errors import ManifestError, ProjectError
from aotbuild.format.canonical import canonical_json
from aotbuild.format.target import HOST
from aotbuild.format.toml_text import read_toml
from aotbuild.manifest import parse_manifest
from aotbuild.record.call_log import CallLog, ObservedFunction, Tally
from aotbuild.record.covering import covers, has_options
from aotbuild.record.entries import Entry, Seen, entries_for, seen_of
from aotbuild.record.entry_text import cost, counted, flow, function_lines
from aotbuild.record.init import PYPROJECT, function_name
from aotbuild.record.manifest_text import (
    CannotEdit,
    FileChange,
    ManifestText,
    new_text,
    read_text,
    schema_changes,
)

_SITES = frozenset({"site-packages", "dist-packages"})


@dataclass(frozen=True)
class LeftOut:
    """Calls that no manifest can have: the function, what they cost, and why."""

    function: ObservedFunction
    tally: Tally
    reason: str

    def __str__(self) -> str:
        place = f"{self.function.file}:{self.function.line}: " if self.function.file else ""
        calls = f"{counted(self.tally.calls, 'call')}, {self.tally.seconds:,.1f} s of first calls"
        return f"left out: {place}{self.function.call}: {calls}\n  {self.reason}"


@dataclass(frozen=True)
class Proposal:
    """A manifest as it would be, and what people are told of it. Nothing is written yet.

    Attributes:
        manifest: The path of the manifest.
        before: Its text; None if there is no such file.
        text: Its proposed text.
        added: The new entries by name, and those that had a TODO.
        lacking: What finished entries lack, by name; they stay as they are.
        covered: The calls that existing entries have already, by name.
        left_out: What no manifest can have.
        notes: What else people should know.
    """

    manifest: Path
    before: str | None
    text: str
    added: Mapping[str, Entry]
    lacking: Mapping[str, Entry]
    covered: Mapping[str, int]
    left_out: tuple[LeftOut, ...]
    notes: tuple[str, ...] = ()

    @property
    def changes(self) -> list[FileChange]:
        """The files to write; a new manifest gets its schema beside it."""
        schema = schema_changes(self.manifest.parent) if self.before is None else []
        return [FileChange(self.manifest, self.before, self.text), *schema]

    @property
    def lines(self) -> Iterator[str]:
        """What people are told."""
        for name, count in self.covered.items():
            yield f"{name} has already: {counted(count, 'signature')}"
        for name, entry in self.lacking.items():
            yield f"{name} lacks what was called; add this to its entry by hand:"
            yield from function_lines(name, entry)
        for name, entry in self.added.items():
            yield f"added {name}: {cost(entry)}"
            yield from (f"  {note}" for note in entry.notes)
            yield from (f"  TODO: {todo}" for todo in entry.todos)
        yield from map(str, self.left_out)
        yield from self.notes

    def to_json(self) -> dict[str, Any]:
        """Return the proposal as plain data."""
        changed = {"added": self.added, "lacking": self.lacking}
        return {
            "manifest": str(self.manifest),
            "changed": self.text != self.before,
            "functions": [
                {
                    "name": name,
                    "call": entry.function.call,
                    "change": change,
                    "signatures": len(entry.seen),
                    "calls": entry.tally.calls,
                    "first_call_seconds": entry.tally.seconds,
                    "notes": [*entry.notes],
                    "todos": [*entry.todos],
                }
                for change, entries in changed.items()
                for name, entry in entries.items()
            ],
            "left_out": [
                {
                    "call": each.function.call,
                    "file": each.function.file,
                    "line": each.function.line,
                    "reason": each.reason,
                    "calls": each.tally.calls,
                    "first_call_seconds": each.tally.seconds,
                }
                for each in self.left_out
            ],
            "text": self.text,
        }


def propose(log: CallLog, manifest: Path, package: str = "") -> Proposal:
    """Return the manifest that has all calls of a log that a manifest can have.

    `package` is that of a new manifest, guessed if it is empty. Finished entries stay as they are.

    Raises:
        ProjectError: There is nothing for a manifest, or it cannot be added to the existing one.
        ManifestError: The existing one is not valid.
        OSError: It cannot be read.
    """
    before = read_text(manifest)
    existing = ManifestText(before, str(manifest)) if before and before.strip() else None
    draft = _Draft(existing)
    package = (existing.package if existing else package) or _package(log, manifest.parent)
    for functions in _same(log):
        draft.add(log, functions, package)
    left_out = tuple(draft.left_out)
    if not existing and not draft.added:
        found = "".join(f"\n  {line}" for each in left_out for line in str(each).split("\n"))
        problem = f"no manifest can have what was recorded{found}"
        remedy = "Record a program that calls jitted functions of your package."
        raise ProjectError(str(manifest), problem, remedy)
    targets, notes = _targets(log)
    if existing is None:
        text = (before or "") + new_text(package, targets, draft.added)
    elif draft.added:
        text = _edited(existing, draft.added, manifest)
    else:
        text = existing.text
    changes = (draft.added, draft.lacking, draft.covered)
    return Proposal(manifest, before, text, *changes, left_out, tuple(notes))


@dataclass
class _Draft:
    """Collects what a manifest gets."""

    existing: ManifestText | None
    added: dict[str, Entry] = field(default_factory=dict)
    lacking: dict[str, Entry] = field(default_factory=dict)
    covered: dict[str, int] = field(default_factory=dict)
    left_out: list[LeftOut] = field(default_factory=list)

    def add(self, log: CallLog, functions: list[ObservedFunction], package: str) -> None:
        """Add the calls of a function, which several versions of its source may have made."""
        function = functions[-1]
        seen = _seen(log, functions)
        if reason := function.problem or _library(function, package):
            self.left_out.append(LeftOut(function, _sum(seen), reason))
            return
        for reason in dict.fromkeys(each.problem for each in seen if each.problem):
            some = [each for each in seen if each.problem == reason]
            self.left_out.append(LeftOut(function, _sum(some), reason))
        left = []
        for each in (each for each in seen if not each.problem):
            name = next((n for n, e in self._named(function) if covers(e, function, each)), "")
            if name:
                self.covered[name] = self.covered.get(name, 0) + 1
            else:
                left.append(each)
        for entry in entries_for(function, left):
            self._place(entry)

    def _named(self, function: ObservedFunction) -> list[tuple[str, Any]]:
        """Return the finished entries of a function."""
        functions = self.existing.functions if self.existing else {}
        return [(name, each) for name, each in functions.items() if each.call == function.call]

    def _place(self, entry: Entry) -> None:
        """Put an entry into the place of an unfinished one, or make a new one."""
        for name, each in self._named(entry.function):
            is_same = has_options(each, entry.function, entry.seen[0])
            if is_same and name not in self.lacking:
                self.lacking[name] = entry
                return
        unfinished = self.existing.unfinished if self.existing else {}
        free = (n for n, call in unfinished.items() if call == entry.function.call)
        name = next((n for n in free if n not in self.added), "")
        taken = {*self.added, *unfinished, *(self.existing.functions if self.existing else ())}
        self.added[name or function_name(entry.function.call, taken)] = entry


def _seen(log: CallLog, functions: list[ObservedFunction]) -> list[Seen]:
    """Return each signature once: several platforms may have it."""
    found: dict[bytes, Seen] = {}
    for function in functions:
        for key, call in log.of(function.key).items():
            each = seen_of(log, key, call)
            same = canonical_json([each.options, each.problem, _arguments(call), call.statics])
            if before := found.get(same):
                each = Seen(each.call, each.statics, each.tally + before.tally, each.problem)
            found[same] = each
    return [*found.values()]


def _arguments(call: Any) -> list[Any]:
    return [[argument.name, argument.spec] for argument in call.arguments]


def _sum(seen: list[Seen]) -> Tally:
    return sum((each.tally for each in seen), Tally())


def _same(log: CallLog) -> list[list[ObservedFunction]]:
    """Return the functions that one entry can stand for, those that cost most first."""
    found: dict[bytes, list[ObservedFunction]] = {}
    for function in log.functions.values():
        data = {k: v for k, v in function.to_json().items() if k not in ("file", "line")}
        found.setdefault(canonical_json(data), []).append(function)

    def seconds(group: list[ObservedFunction]) -> float:
        return log.tally(key for each in group for key in log.of(each.key)).seconds

    return sorted(found.values(), key=seconds, reverse=True)


def _library(function: ObservedFunction, package: str) -> str:
    """Return why a function of an installed package is left out; empty for one's own."""
    if _SITES.isdisjoint(Path(function.file).parts) or function.package == package.split(".")[0]:
        return ""
    return (
        f"it is in {function.package}: call what leads to it inside a jitted function of your "
        "package"
    )


def _package(log: CallLog, folder: Path) -> str:
    """Return the package of a project: the one that pyproject.toml is named after, or that is here.

    Else it is the one whose functions cost most.
    """
    seconds: dict[str, float] = {}
    for function in log.functions.values():
        if not function.problem:
            tally = log.tally(log.of(function.key))
            is_own = _SITES.isdisjoint(Path(function.file).parts)
            known = seconds.get(function.package, 0.0)
            seconds[function.package] = known + tally.seconds + (1e9 if is_own else 0.0)
    tops = sorted(seconds, key=lambda top: -seconds[top])
    try:
        project = read_toml(read_text(folder / PYPROJECT) or "").get("project", {})
        named = re.sub(r"[-.]+", "_", str(project.get("name", ""))).lower()
    except (ValueError, AttributeError):
        named = ""
    here = [t for t in tops if any((folder / p / t / "__init__.py").is_file() for p in ("", "src"))]
    return named if named in tops else next(iter([*here, *tops]), named or "package")


def _targets(log: CallLog) -> tuple[list[str], list[str]]:
    """Return the targets of where the calls ran, and notes on those that need more than a name."""
    platforms = sorted({*filter(None, (call.platform for call in log.calls.values()))})
    targets, notes = [], []
    for name in platforms:
        functions = {"f": {"call": "m:f"}}
        text = {"version": 1, "package": "p", "targets": [name], "functions": functions}
        try:
            parse_manifest(flow(text))
            targets.append(name)
        except ManifestError as err:
            notes.append(f"it ran on {name}; add it to targets: {err.problems[0].message}")
    return targets or [HOST], notes


def _edited(existing: ManifestText, added: dict[str, Entry], manifest: Path) -> str:
    try:
        return existing.with_entries(added)
    except CannotEdit as err:
        lines = [line for name, each in added.items() for line in function_lines(name, each)]
        problem = f"what was recorded cannot be added to it: {err}; nothing was changed"
        remedy = "Add this to its functions yourself:\n\n" + "\n".join(lines)
        raise ProjectError(str(manifest), problem, remedy) from err
