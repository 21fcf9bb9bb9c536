"""What a manifest gets for recorded calls: new entries, and what existing ones lack."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from aotbuild.authoring.check_entry import entry_problem
from aotbuild.authoring.counted import cost, counted
from aotbuild.authoring.entries import Entry, Limits, entries_for, problem_entry
from aotbuild.authoring.extend import Extension, extension_for
from aotbuild.authoring.matching import Expanded, Mismatch, fit
from aotbuild.authoring.seen import Seen, Variant
from aotbuild.authoring.source_manifest import function_name
from aotbuild.authoring.tree_names import TreeNames
from aotbuild.manifest import Function
from aotbuild.watch.recording import RecordedFunction


@dataclass
class Added:
    """A new entry: its name, and its body with the names of its trees."""

    name: str
    entry: Entry
    reason: str
    body: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Extended:
    """An existing entry that has calls, or gets what it lacks for them."""

    name: str
    calls: Variant
    extension: Extension


class Draft:
    """Collects what a manifest gets.

    `existing` are the functions that it has; `unfinished` are names of others that have a TODO, and
    their calls.
    """

    def __init__(self, existing: Mapping[str, Function], unfinished: Mapping[str, str]) -> None:
        self._unfinished = dict(unfinished)
        self._existing = {name: Expanded(function) for name, function in existing.items()}
        self.added: list[Added] = []
        self.extended: list[Extended] = []
        self.problems: list[Added] = []

    def has(self, function: RecordedFunction) -> bool:
        """Return whether an existing entry is of a function."""
        calls = [each.function.call for each in self._existing.values()]
        return function.call in (*calls, *self._unfinished.values())

    def add(self, variant: Variant, limits: Limits) -> None:
        """Find a place for calls: in the existing entries as they are or extended, or new ones."""
        reasons = []
        for name in self._named(variant):
            try:
                extension = extension_for(self._existing[name], variant, limits.most)
            except Mismatch as err:
                reasons.append(f"{name} stays as it is: {err}")
                continue
            if not self._is_claimed(name, extension):
                self.extended.append(Extended(name, variant, extension))
                return
            reasons.append(f"{name} stays as it is: it has other calls already")
        left = self._without_covered(variant) if reasons else variant
        for entry in entries_for(left, limits) if left.seen else ():
            problem = "; ".join(entry.problems) or entry_problem(entry)
            reason = "; ".join(reasons)
            if problem:
                self._add(self.problems, replace(entry, problems=(problem,)), reason)
            else:
                self._add(self.added, entry, reason)

    def add_problem(self, variant: Variant) -> None:
        """Add calls that no manifest can have."""
        self._add(self.problems, problem_entry(variant), "")

    def place(self, names: TreeNames) -> None:
        """Give the large trees of the new entries their names."""
        for each in self.added:
            each.body = names.place(each.name, each.entry)

    def lines(self) -> Iterator[str]:
        """Yield what people are told."""
        for each in self.extended:
            yield _extended_line(each)
            yield from (f"  taken to be what was passed: {like}" for like in each.extension.likes)
        for added in self.added:
            change = self._change(added)
            yield f"{change} {added.name}: {_cost(added.entry.calls)}"
            yield from (f"  {note}" for note in added.entry.notes)
            yield from [f"  {added.reason}"] if added.reason else ()
        for added in self.problems:
            place = _place(added.entry.calls)
            yield f"as a comment: {added.name}{place}: {_cost(added.entry.calls)}"
            yield from (f"  {problem}" for problem in added.entry.problems[:3])

    def to_json(self) -> Iterator[dict[str, Any]]:
        """Yield what the lines say, as plain data."""
        for each in self.extended:
            change = "extended" if each.extension.is_change else "unchanged"
            likes = [*each.extension.likes]
            yield {**_data(each.name, each.calls), "change": change, "assumed": likes}
        for added in self.added:
            notes = [*added.entry.notes, *([added.reason] if added.reason else [])]
            yield {
                **_data(added.name, added.entry.calls),
                "change": self._change(added),
                "notes": notes,
            }
        for added in self.problems:
            found = _data(added.name, added.entry.calls)
            yield {**found, "change": "commented", "problems": [*added.entry.problems]}

    def _change(self, added: Added) -> str:
        return "finished" if added.name in self._unfinished else "added"

    def _named(self, variant: Variant) -> list[str]:
        call = variant.function.call
        return [name for name, each in self._existing.items() if each.function.call == call]

    def _is_claimed(self, name: str, extension: Extension) -> bool:
        """Return whether other calls rely on what an entry has now, or on what `like:` is."""
        others = [each.extension for each in self.extended if each.name == name]
        changed = any(each.is_change for each in others) and extension.is_change
        return changed or any(each.likes for each in others if extension.likes)

    def _without_covered(self, variant: Variant) -> Variant:
        functions = [self._existing[name] for name in self._named(variant)]
        left = (
            seen
            for seen in variant.seen
            if not any(_has(function, variant, seen) for function in functions)
        )
        return Variant(variant.function, tuple(left))

    def _add(self, entries: list[Added], entry: Entry, reason: str) -> None:
        entries.append(Added(self._name(entry), entry, reason))

    def _name(self, entry: Entry) -> str:
        """Return a name: that of an unfinished entry, or one beside those of the same function."""
        new = {each.name: each.entry.call for each in (*self.added, *self.problems)}
        unfinished = [name for name, call in self._unfinished.items() if call == entry.call]
        free = [name for name in unfinished if name not in new]
        if free and not entry.problems:
            return free[0]
        taken = [*self._existing, *self._unfinished, *new]
        mine = [name for name, call in new.items() if call == entry.call]
        first = next(iter([*self._named(entry.calls), *unfinished, *mine]), "")
        return _numbered(first, taken) if first else function_name(entry.call, taken)


def _has(function: Expanded, variant: Variant, seen: Seen) -> bool:
    try:
        found = fit(function, variant.function, seen)
    except Mismatch:
        return False
    return function.covers(found) and not found.likes


def _numbered(name: str, taken: list[str]) -> str:
    number = 2
    while f"{name}_{number}" in taken:
        number += 1
    return f"{name}_{number}"


def _extended_line(each: Extended) -> str:
    found = each.extension
    if not found.is_change:
        return f"{each.name} has it all: {_cost(each.calls)}"
    parts = [f"static {key}: {', '.join(map(repr, v))}" for key, v in found.static.items()]
    parts += ["dims"] if found.dims is not None else []
    parts += [f"{name}: {aval}" for (name, _), aval in found.avals.items()]
    gets = ", ".join(parts)
    now = counted(found.signatures, "signature")
    return f"extended {each.name}: {gets}; now {now}; {_cost(each.calls)}"


def _cost(calls: Variant) -> str:
    return cost(calls.tally, len(calls.seen))


def _place(calls: Variant) -> str:
    function = calls.function
    return f" ({function.file}:{function.line})" if function.file else ""


def _data(name: str, calls: Variant) -> dict[str, Any]:
    return {
        "name": name,
        "call": calls.function.call,
        "signatures": len(calls.seen),
        "calls": calls.tally.calls,
        "compile_seconds": calls.tally.seconds,
    }
