"""What a manifest gets for recorded calls: new entries, and what existing ones lack."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from aotbuild.manifest import Function
from aotbuild.record.check_entry import entry_problem
from aotbuild.record.counted import cost, counted
from aotbuild.record.entries import Entry, Limits, entries_for, problem_entry
from aotbuild.record.extend import Extension, extension_for
from aotbuild.record.init import function_name
from aotbuild.record.known import Known
from aotbuild.record.matching import Mismatch
from aotbuild.record.recording import RecordedFunction
from aotbuild.record.seen import Variant

# How many entries are named that cannot have some calls.
_SHOWN = 3
_SEPARATE = (
    "it is a function of its own then; to have one for all calls, remove the other and record again"
)


@dataclass
class Added:
    """A new entry: its name, and its body."""

    name: str
    entry: Entry
    reason: str

    @property
    def body(self) -> dict[str, Any]:
        return self.entry.body


@dataclass(frozen=True)
class Extended:
    """An existing entry that has calls, or gets what it lacks for them."""

    name: str
    calls: Variant
    extension: Extension


class Draft:
    """Collects what a manifest gets.

    `existing` are the functions that it has; `unfinished` are names of others that have a TODO, and
    their calls. Those in `fixed` cannot be changed, for a reason.
    """

    def __init__(
        self,
        existing: Mapping[str, Function],
        unfinished: Mapping[str, str],
        fixed: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._unfinished, self._fixed = dict(unfinished), fixed
        self._known = Known(existing)
        self.added: list[Added] = []
        self.extended: list[Extended] = []
        self.problems: list[Added] = []

    def has(self, function: RecordedFunction) -> bool:
        """Return whether an existing entry is of a function."""
        return bool(self._known.named(function.call)) or function.call in {
            *self._unfinished.values()
        }

    def add(self, variants: Sequence[Variant], limits: Limits) -> None:
        """Find a place for the calls of a function: in the existing entries, or new ones."""
        if variants and self._known.named(variants[0].function.call):
            for variant in variants:
                self._add_beside(variant, limits)
            return
        for variant in variants:
            for entry in entries_for(variant, limits):
                self._add_entry(entry, "")

    def _add_beside(self, variant: Variant, limits: Limits) -> None:
        """Find a place for calls: in the existing entries as they are or extended, or new ones."""
        known = self._known.covering(variant)
        had = {id(seen) for each in known.values() for seen in each.seen}
        left = Variant(variant.function, tuple(s for s in variant.seen if id(s) not in had))
        reasons: list[str] = []
        name, extension = self._extendable(left, limits, reasons) if left.seen else ("", None)
        if extension:
            have = known.pop(name, Variant(variant.function, ()))
            calls = Variant(variant.function, (*have.seen, *left.seen))
            self.extended.append(Extended(name, calls, extension))
        unchanged = Extension()
        self.extended += [Extended(name, each, unchanged) for name, each in known.items()]
        if not extension and left.seen:
            for entry in entries_for(left, limits):
                self._add_entry(entry, _reason(reasons))

    def _extendable(
        self, variant: Variant, limits: Limits, reasons: list[str]
    ) -> tuple[str, Extension | None]:
        """Return the entry that can have calls, and what it lacks; `reasons` gets why not."""
        for name in self._known.named(variant.function.call):
            try:
                fits = [self._known.fit(name, variant, seen) for seen in variant.seen]
                entry = self._known.entries[name]
                extension = extension_for(entry, variant, fits, limits.most)
                if not self._is_claimed(name, extension):
                    if extension.is_change and name in self._fixed:
                        raise Mismatch(self._fixed[name])
                    return name, extension
                reasons.append(f"{name} stays as it is: it has other calls already")
            except Mismatch as err:
                reasons.append(f"{name} stays as it is: {err}")
        return "", None

    def _add_entry(self, entry: Entry, reason: str) -> None:
        problem = "; ".join(entry.problems) or entry_problem(entry)
        if problem:
            self._add(self.problems, replace(entry, problems=(problem,)), reason)
        else:
            self._add(self.added, entry, reason)

    def add_problem(self, variant: Variant) -> None:
        """Add calls that no manifest can have."""
        self._add(self.problems, problem_entry(variant), "")

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
            yield from [f"  {_SEPARATE}"] if added.reason else ()
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

    def _is_claimed(self, name: str, extension: Extension) -> bool:
        """Return whether other calls rely on what an entry has now, or on what `like:` is."""
        others = [each.extension for each in self.extended if each.name == name]
        changed = any(each.is_change for each in others) and extension.is_change
        return changed or any(each.likes for each in others if extension.likes)

    def _add(self, entries: list[Added], entry: Entry, reason: str) -> None:
        entries.append(Added(self._name(entry), entry, reason))

    def _name(self, entry: Entry) -> str:
        """Return a name: that of an unfinished entry, or one beside those of the same function."""
        new = {each.name: each.entry.call for each in (*self.added, *self.problems)}
        unfinished = [name for name, call in self._unfinished.items() if call == entry.call]
        free = [name for name in unfinished if name not in new]
        if free and not entry.problems:
            return free[0]
        taken = {*self._known.entries, *self._unfinished, *new}
        mine = [name for name, call in new.items() if call == entry.call]
        first = next(iter([*self._known.named(entry.call), *unfinished, *mine]), "")
        return _numbered(first, taken) if first else function_name(entry.call, taken)


def _reason(reasons: list[str]) -> str:
    more = len(reasons) - _SHOWN
    return "; ".join([*reasons[:_SHOWN], *([f"and {more} more"] if more > 0 else [])])


def _numbered(name: str, taken: Collection[str]) -> str:
    number = 2
    while f"{name}_{number}" in taken:
        number += 1
    return f"{name}_{number}"


def _extended_line(each: Extended) -> str:
    found = each.extension
    if not found.is_change:
        return f"{each.name} has already: {_cost(each.calls)}"
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
