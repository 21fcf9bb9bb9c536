"""What of a manifest will serve calls, before anything is built. Imports nothing of the user's."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import product

from aotbuild.coverage.result import Compiled, Serving, State, best
from aotbuild.format.values import shown
from aotbuild.manifest import Manifest
from aotbuild.record.dims import Row
from aotbuild.record.known import Known
from aotbuild.record.matching import Expanded, Fit, Mismatch
from aotbuild.record.recording import RecordedCall, RecordedFunction, Tally
from aotbuild.record.seen import Variant, seen_of

_FEEDBACK = "what feedback: adds is known when it is built: compare with the wheel"


class ManifestServing:
    """Finds what a manifest has for calls."""

    def __init__(self, place: str, manifest: Manifest) -> None:
        self.place = place
        self._known = Known(manifest.functions)

    def serving(self, function: RecordedFunction, call: RecordedCall) -> tuple[str, Serving]:
        """Return the name of the function that has a call, or is nearest, and what serves it."""
        variant = Variant(function, (seen_of(call, Tally()),))
        found = [(name, self._serving(name, variant)) for name in self._known.named(function.call)]
        reason = function.problem or f"the manifest has no function with call: {function.call}"
        return best(found, reason)

    def compiled(self) -> Iterator[Compiled]:
        """Yield all signatures that the manifest lists."""
        for name, function in self._known.entries.items():
            statics = [*product(*function.statics)]
            for sizes in _rows(function):
                for values in statics:
                    label = _label(function, sizes, values)
                    yield Compiled(name, _key(name, sizes, values), label)

    def _serving(self, name: str, variant: Variant) -> Serving:
        function, (seen,) = self._known.entries[name], variant.seen
        hint = [_FEEDBACK] if function.function.feedback else []
        try:
            found = self._known.fit(name, variant, seen)
        except Mismatch as err:
            reasons = (str(err), *seen.problems, *hint)
            return Serving(State.MISSING, reasons=reasons)
        row = function.serving(found)
        if row is None:
            return Serving(State.MISSING, reasons=(*_why_not(function, found), *hint))
        key, label = _key(name, row, found.statics), _label(function, row, found.statics)
        likes = tuple(f"{like} is taken to be what was passed" for like in found.likes)
        if row == found.row:
            return Serving(State.EXACT, key, label, 0.0, likes)
        total = function.padded_elements(row)
        waste = 1.0 - function.padded_elements(found.row) / total if total else 0.0
        return Serving(State.PADDED, key, label, waste, likes)


def _why_not(function: Expanded, found: Fit) -> Iterator[str]:
    """Yield why the dims and static values of a call are not those of a function."""
    named = zip(function.function.static, function.statics, found.statics, strict=True)
    for name, known, value in named:
        if value not in known:
            listed = ", ".join(map(_decoded, known))
            yield f"static {name}: {_decoded(value)} is not among {listed}"
    if found.differs:
        yield "a size differs from the one that the manifest writes, or two sizes of one dim do"
        return
    rows = _rows(function)
    if found.row not in rows:
        sizes = ", ".join(f"{n}={s}" for n, s in zip(function.order, found.row, strict=True))
        nearest = min(rows, key=lambda row: _distance(row, found.row))
        words = ", ".join(f"{n}={s}" for n, s in zip(function.order, nearest, strict=True))
        yield f"{sizes} is not listed under dims:, the nearest is {words}"


def _rows(function: Expanded) -> list[Row]:
    """Return the sizes of the dims of all signatures, in the order of the manifest."""
    return [tuple(size for _, size in row) for row in function.function.rows]


def _distance(one: Row, other: Row) -> tuple[int, int]:
    pairs = [*zip(one, other, strict=True)]
    return sum(a != b for a, b in pairs), sum(abs(a - b) for a, b in pairs)


def _key(name: str, row: Row, statics: Sequence[str]) -> str:
    return "\0".join([name, *map(str, row), *statics])


def _label(function: Expanded, row: Row, statics: Sequence[str]) -> str:
    parts = [f"{name}={size}" for name, size in zip(function.order, row, strict=True)]
    parts += [f"{k}={_decoded(v)}" for k, v in zip(function.function.static, statics, strict=True)]
    return ", ".join(parts) or "-"


def _decoded(value: str) -> str:
    """Return a static value, which is encoded as text, as people write it."""
    return shown(json.loads(value))
