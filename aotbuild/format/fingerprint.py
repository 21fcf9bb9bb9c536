"""Fingerprints: digests of Python values that have no encoding, equal in every process.

A value is hashed with its parts (`format.parts`), and they with theirs. Where a value leads back to
one that contains it, the distance stands for that. So a digest depends on the value alone: not on
what else was read, and not on which parts are shared. It is compared and never decoded.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from aotbuild.format.canonical import canonical_json, sha256_hex
from aotbuild.format.parts import SET, parts_of
from aotbuild.format.values import NotEncodable, encode, type_name

# A part in its whole: `["=", plain value]`, `["#", digest]`, or `["^", distance]` to an outer one.
_Link: TypeAlias = list[Any]

_DIGITS = 32
_DEEPEST = 150
_MOST_VALUES = 100_000
_PLAIN = (type(None), bool, int, float, str)


class Fingerprinter:
    """Makes digests; values that several fingerprints share are read once."""

    def __init__(self) -> None:
        # By id. A digest of a value that is in a cycle, or leads to one, depends on where the walk
        # entered the cycle, and is not kept.
        self._digests: dict[int, str] = {}
        # Values are kept alive, so that no other gets the same id.
        self._kept: list[Any] = []
        self._open: dict[int, int] = {}
        self._count = 0

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
            self._open.clear()
        return str(link[1]) if link[0] == "#" else _digest("plain", link[1], [])

    def _visit(self, value: Any) -> tuple[_Link, bool]:
        """Return the link to a value, and whether it leads to a cycle."""
        kind, key = type(value), id(value)
        if kind in _PLAIN:
            return ["=", encode(value) if kind is float else value], False
        if key in self._open:
            return ["^", len(self._open) - self._open[key]], True
        if key in self._digests:
            return ["#", self._digests[key]], False
        self._count += 1
        if len(self._open) >= _DEEPEST or self._count > _MOST_VALUES:
            msg = f"a {type_name(kind)} is nested too deep or is too large to compare"
            raise NotEncodable(msg)
        self._kept.append(value)
        self._open[key] = len(self._open)
        digest, has_cycle = self._read(value)
        del self._open[key]
        if not has_cycle:
            self._digests[key] = digest
        return ["#", digest], has_cycle

    def _read(self, value: Any) -> tuple[str, bool]:
        kind, name, parts = parts_of(value)
        links, has_cycle = [], False
        for label, part in parts:
            link, leads_back = self._visit(part)
            links.append((label, link))
            has_cycle |= leads_back
        if kind == SET:
            if has_cycle and len(links) > 1:
                msg = "a set holds values that lead back to it"
                raise NotEncodable(msg)
            links = [("", link) for link in sorted((link for _, link in links), key=repr)]
        return _digest(kind, name, links), has_cycle


def _digest(kind: str, name: Any, links: list[tuple[str, _Link]]) -> str:
    return sha256_hex(canonical_json([kind, name, links]))[:_DIGITS]
