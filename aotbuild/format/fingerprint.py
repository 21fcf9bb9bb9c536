"""Fingerprints: digests of Python values that have no encoding, equal in every process.

A value is hashed with its parts (`format.parts`), and they with theirs. Where a value leads back to
one that contains it, the distance stands for that. So a digest depends on the value alone: not on
what else was read, and not on which parts are shared. It is compared and never decoded.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, TypeAlias

from aotbuild.format.canonical import canonical_json, sha256_hex
from aotbuild.format.parts import SET, parts_of
from aotbuild.format.values import NotEncodable, encode, type_name

if TYPE_CHECKING:
    from aotbuild.format.facts import Facts, Form

# A part in its whole: `["=", plain value]`, `["#", digest]`, or `["^", distance]` to an outer one.
_Link: TypeAlias = list[Any]

_DIGITS = 32
_DEEPEST = 150
_MOST_VALUES = 100_000
_PLAIN = (type(None), bool, int, float, str)
# Below every position in the walk's stack.
_CLOSED = _MOST_VALUES


class Fingerprinter:
    """Makes digests; values that several fingerprints share are read once."""

    def __init__(self) -> None:
        # By id: digests, and numbers of the cycles that values are in.
        self._closed: dict[int, str] = {}
        self._cycles: dict[int, int] = {}
        # Values are kept alive, so that no other gets the same id.
        self._kept: list[Any] = []
        self._forms: dict[str, Form] = {}
        self._count = 0
        self._begin()

    def _begin(self) -> None:
        self._open: dict[int, int] = {}
        self._stack: list[Any] = []
        self._open_cycles: Counter[int | None] = Counter()
        self._depth = 0

    def digest(self, value: Any) -> str:
        """Return the digest of a value: 32 hexadecimal digits; NotEncodable if it has none."""
        try:
            link, _ = self._visit(value)
        except NotEncodable:
            raise
        except RecursionError as err:
            msg = f"a {type_name(type(value))} is nested too deep to compare"
            raise NotEncodable(msg) from err
        except Exception as err:  # user code says how it is pickled
            msg = f"reading a {type_name(type(value))} raised {type(err).__name__}: {err}"
            raise NotEncodable(msg) from err
        finally:
            self._begin()
        return str(link[1]) if link[0] == "#" else _digest(("plain", link[1], []))

    def facts(self, name: str, digest: str) -> Facts:
        """Return the facts about a digest that was made here; `name` is what it stands for."""
        # A late import: a call needs facts for errors only.
        from aotbuild.format.facts import make_facts

        return make_facts(name, digest, self._forms)

    def _visit(self, value: Any) -> tuple[_Link, int]:
        """Return the link to a value, and the lowest place in the stack that it leads back to.

        The values above that place are in a cycle with it: Tarjan's algorithm. Their digests hold
        only from where the walk entered the cycle, so only that of the entry is kept.
        """
        kind = type(value)
        if kind in _PLAIN:
            return ["=", encode(value) if kind is float else value], _CLOSED
        key = id(value)
        if key in self._open:
            place = self._open[key]
            return ["^", len(self._stack) - place], place
        if key in self._closed and not self._open_cycles[self._cycles.get(key)]:
            return ["#", self._closed[key]], _CLOSED
        place = self._push(value)
        form, lowest = self._read(value)
        digest = _digest(form)
        self._forms[digest] = form
        if lowest >= place:
            self._pop(place)
            self._closed[key] = digest
            lowest = _CLOSED
        return ["#", digest], lowest

    def _push(self, value: Any) -> int:
        key, place = id(value), len(self._stack)
        self._stack.append(value)
        self._open[key] = place
        if key in self._cycles:
            self._open_cycles[self._cycles[key]] += 1
        return place

    def _pop(self, place: int) -> None:
        """Close what is above a place: one value, or all that are in a cycle with it."""
        values = self._stack[place:]
        first, is_cycle = id(values[0]), len(values) > 1
        for value in values:
            key = id(value)
            del self._open[key]
            if key in self._cycles:
                self._open_cycles[self._cycles[key]] -= 1
            elif is_cycle:
                self._cycles[key] = first
        self._kept += values
        del self._stack[place:]

    def _read(self, value: Any) -> tuple[Form, int]:
        self._count += 1
        self._depth += 1
        if self._depth > _DEEPEST or self._count > _MOST_VALUES:
            msg = f"a {type_name(type(value))} is nested too deep or is too large to compare"
            raise NotEncodable(msg)
        kind, name, parts = parts_of(value)
        links, lowest = [], _CLOSED
        for label, part in parts:
            link, low = self._visit(part)
            links.append((label, link))
            lowest = min(lowest, low)
        if kind == SET:
            links = self._sorted(links, lowest)
        self._depth -= 1
        return (kind, name, links), lowest

    def _sorted(self, links: list[tuple[str, _Link]], lowest: int) -> list[tuple[str, _Link]]:
        if lowest < _CLOSED and len(links) > 1:
            msg = "a set holds values that lead back to it"
            raise NotEncodable(msg)
        return [("", link) for link in sorted((link for _, link in links), key=repr)]


def _digest(form: Form) -> str:
    return sha256_hex(canonical_json(form))[:_DIGITS]
