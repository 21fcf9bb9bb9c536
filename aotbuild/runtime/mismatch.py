"""Mismatches: how a call differs from the signatures that were compiled, nearest first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from aotbuild.errors import SignatureMismatch
from aotbuild.runtime.arguments import REMEDY, Call
from aotbuild.runtime.differences import differences
from aotbuild.runtime.host import Host
from aotbuild.runtime.nearest import find_nearest
from aotbuild.runtime.select import Verdict, select
from aotbuild.spec.index import Index

_SHOWN_SIGNATURES = 3
_SHOWN_DIFFERENCES = 5
# Signatures whose records are read: equally near ones are shown in the order of their names.
_READ = 16


def signature_mismatch(call: Call, index: Index, host: Host) -> SignatureMismatch:
    """Return the error for a call that fits no signature of its function.

    All signatures are compared by their outlines; only records of the nearest are read.
    """
    name = call.bound.function.name
    found = find_nearest(call, index.outlines(name), _READ)
    keys = [key for *_, key in found.distances]
    # Of each signature the record that fits best here.
    best = {key: select(index.records(name, key), host)[0] for key in (*keys, found.room) if key}
    order = sorted(found.distances, key=lambda item: (*item[:2], str(best[item[2]].record)))
    nearest = [best[key] for *_, key in order]
    lines = list(_told(call, nearest[:_SHOWN_SIGNATURES]))
    if found.count > _SHOWN_SIGNATURES:
        more = found.count - _SHOWN_SIGNATURES
        lines.append(f"and {more} more signature{'s' if more > 1 else ''}")
    if found.room and call.bound.function.pad is None:
        lines += _padding(call, nearest, best[found.room])
    summary = f"no signature of {found.count} fits this call; the nearest:"
    if not found.count:
        summary = "no signature was compiled"
    return SignatureMismatch(name, summary, lines, REMEDY)


def _told(call: Call, nearest: Sequence[Verdict]) -> Iterator[str]:
    for number, verdict in enumerate(nearest, 1):
        yield f"{number}. {verdict.record}"
        for line in (*_shorten(differences(call, verdict.record.signature)), *verdict.reasons):
            yield f"   {line}"


def _padding(call: Call, nearest: Sequence[Verdict], room: Verdict) -> Iterator[str]:
    """Yield that a larger signature could serve a padded call, if sizes vary where it is larger.

    An array that has one size in all signatures, as weights have, is wrong and not too small.
    """
    wanted = room.record.signature.leaves
    pairs = enumerate(zip(call.signature.leaves, wanted, strict=False))
    larger = [number for number, (has, aval) in pairs if has != aval]
    others = [verdict.record.signature.leaves for verdict in nearest]
    if room.fits and all(any(o[n : n + 1] != (wanted[n],) for o in others) for n in larger):
        yield f"with `pad:` in the manifest this call could be padded to {room.record}"


def _shorten(lines: list[str]) -> list[str]:
    if len(lines) <= _SHOWN_DIFFERENCES:
        return lines
    return [*lines[:_SHOWN_DIFFERENCES], f"and {len(lines) - _SHOWN_DIFFERENCES} more differences"]
