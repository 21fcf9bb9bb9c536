"""The entries of a manifest, and which recorded calls they have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from itertools import product

from aotbuild.manifest import Function
from aotbuild.record.dims import Row
from aotbuild.record.matching import Expanded, Fit, Mismatch, fit
from aotbuild.record.seen import Seen, Variant

Signature = tuple[Row, tuple[str, ...]]


class Known:
    """Looks recorded calls up in the entries of a manifest.

    Entries with equal arguments, which differ in sizes and static values only, are looked at
    together: a function may have hundreds of them, and thousands of calls.
    """

    def __init__(self, functions: Mapping[str, Function]) -> None:
        self.entries = {name: Expanded(function) for name, function in functions.items()}
        self._fits: dict[tuple[str, int], Fit | Mismatch] = {}
        self._seen: list[Seen] = []

    def named(self, call: str) -> list[str]:
        """Return the entries of a function, given as `module:qualname`."""
        return self._named.get(call, [])

    def fit(self, name: str, variant: Variant, seen: Seen) -> Fit:
        """Return what a call is for an entry; Mismatch if it is no call of it."""
        place = self._kinds[name], id(seen)
        if place not in self._fits:
            self._seen.append(seen)  # or another one could get its id
            try:
                self._fits[place] = fit(self.entries[name], variant.function, seen)
            except Mismatch as err:
                self._fits[place] = err
        found = self._fits[place]
        if isinstance(found, Mismatch):
            raise found
        return found

    def covering(self, variant: Variant) -> dict[str, Variant]:
        """Return the calls that entries have already, each under the first that has it.

        Calls of which `like:` has a part are in none: the manifest alone does not tell.
        """
        found: dict[str, list[Seen]] = {}
        for seen in variant.seen:
            name = next(self._having(variant, seen), None)
            if name:
                found.setdefault(name, []).append(seen)
        return {name: Variant(variant.function, tuple(seen)) for name, seen in found.items()}

    def _having(self, variant: Variant, seen: Seen) -> Iterator[str]:
        for first, names in self._alike.get(variant.function.call, {}).items():
            try:
                found = self.fit(names[0], variant, seen)
            except Mismatch:
                continue
            if found.likes or found.differs:
                continue
            name = self._signatures(first).get((found.row, found.statics))
            padded = (n for n in names if self.entries[n].function.pad)
            yield from [name] if name else (n for n in padded if self.entries[n].covers(found))

    def _signatures(self, kind: str) -> dict[Signature, str]:
        """Return all signatures of entries of one kind, with the first entry that has each."""
        if kind not in self._by_signature:
            found: dict[Signature, str] = {}
            for name in (name for name, each in self._kinds.items() if each == kind):
                entry = self.entries[name]
                for row, statics in product(entry.rows, product(*entry.statics)):
                    found.setdefault((row, statics), name)
            self._by_signature[kind] = found
        return self._by_signature[kind]

    @cached_property
    def _by_signature(self) -> dict[str, dict[Signature, str]]:
        return {}

    @cached_property
    def _kinds(self) -> dict[str, str]:
        return {name: _kind(entry) for name, entry in self.entries.items()}

    @cached_property
    def _alike(self) -> dict[str, dict[str, list[str]]]:
        """The entries of each function by kind."""
        found: dict[str, dict[str, list[str]]] = {}
        for name, entry in self.entries.items():
            by_kind = found.setdefault(entry.function.call, {})
            by_kind.setdefault(self._kinds[name], []).append(name)
        return found

    @cached_property
    def _named(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for name, entry in self.entries.items():
            found.setdefault(entry.function.call, []).append(name)
        return found


def _kind(entry: Expanded) -> str:
    """Return what decides how a call fits an entry: all but its sizes and static values."""
    each = entry.function
    options = (each.mesh, each.explicit_axes, each.config)
    return repr((each.call, entry.arguments, entry.order, [*each.static], *options))
