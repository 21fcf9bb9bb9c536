"""Which signatures of a function are one program, and where two programs part. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

# As worker.purity.skeleton makes them: depth, primitive, `file:line in function`, and a digest of
# the rest.
Steps = Sequence[Sequence[Any]]


@dataclass(frozen=True)
class TracedSignature:
    """A signature that was traced: its label, the values of its dims and statics, its steps."""

    label: str
    values: Mapping[str, str]
    steps: Steps


@dataclass(frozen=True)
class Fork:
    """Where a program parts from the first one: what each does, and `file:line in function`."""

    first: str
    other: str
    line: str
    remark: str = ""


@dataclass(frozen=True)
class Program:
    """Signatures that are one program up to sizes; `fork` is None for the first program."""

    labels: tuple[str, ...]
    fork: Fork | None


def find_programs(signatures: Sequence[TracedSignature]) -> tuple[Program, ...]:
    """Return the programs in the order of the signatures."""
    members = _members(signatures)
    if not members:
        return ()
    first = members[0][0].steps
    return tuple(
        Program(tuple(s.label for s in same), _fork(first, same[0].steps) if number else None)
        for number, same in enumerate(members)
    )


def deciding_names(signatures: Sequence[TracedSignature]) -> tuple[str, ...]:
    """Return the dims and static arguments of which each alone tells the programs apart."""
    members = _members(signatures)
    if len(members) < 2:
        return ()
    names = dict.fromkeys(name for signature in signatures for name in signature.values)
    return tuple(name for name in names if _tells_apart(name, members))


def _members(signatures: Sequence[TracedSignature]) -> list[list[TracedSignature]]:
    found: dict[Any, list[TracedSignature]] = {}
    for signature in signatures:
        found.setdefault(tuple(map(tuple, signature.steps)), []).append(signature)
    return list(found.values())


def _tells_apart(name: str, members: Sequence[Sequence[TracedSignature]]) -> bool:
    values = [{signature.values.get(name, "") for signature in same} for same in members]
    return sum(map(len, values)) == len(set().union(*values))


def _fork(first: Steps, other: Steps) -> Fork:
    pairs = zip(first, other, strict=False)
    shorter = min(len(first), len(other))
    at = next((i for i, (a, b) in enumerate(pairs) if tuple(a) != tuple(b)), shorter)
    a, b = (steps[at] if at < len(steps) else None for steps in (first, other))
    line = next((step[2] for step in (b, a) if step and step[2]), "")
    return Fork(_word(a), _word(b), line, _remark(first, other, a, b))


def _word(step: Sequence[Any] | None) -> str:
    return "nothing more" if step is None else str(step[1])


def _remark(first: Steps, other: Steps, a: Any, b: Any) -> str:
    counts = [Counter(tuple(step[:3]) for step in steps) for steps in (first, other)]
    if counts[0].keys() == counts[1].keys() and counts[0] != counts[1]:
        step = next(step for step in counts[0] if counts[0][step] != counts[1][step])
        times = f"{counts[0][step]} times, then {counts[1][step]}"
        return f"{step[1]} {times}: a loop in Python is unrolled, one copy for each turn"
    if a and b and a[2] == b[2]:
        same = "with other inputs, dtypes or parameters" if a[1] == b[1] else "both from this line"
        return f"{same}: a choice on it, or one of the library that it calls"
    return ""
