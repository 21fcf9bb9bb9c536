"""From the results of all units to an index: what is in it, and what contradicts. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from aotbuild.build.plan import Plan
from aotbuild.build.progress import UnitDone
from aotbuild.errors import UnitFailure
from aotbuild.format.record import Record
from aotbuild.format.signature import Function

# The stage of failures that are found when all units are compiled.
STAGE = "pack"


@dataclass(frozen=True)
class Assembled:
    """The contents of an index, and the results that it is made from."""

    header: dict[str, Any]
    functions: tuple[Function, ...]
    done: tuple[UnitDone, ...]
    failed: tuple[UnitDone, ...]

    @property
    def records(self) -> tuple[Record, ...]:
        """The records of the units that did not fail."""
        return tuple(result.record for result in self.done if result.record)

    @property
    def failures(self) -> tuple[UnitFailure, ...]:
        """Why the others failed."""
        return tuple(result.failure for result in self.failed if result.failure)

    @property
    def total(self) -> int:
        """The number of units that failed or did not."""
        return len(self.done) + len({id(result.unit) for result in self.failed})


def assemble(plan: Plan, results: Iterable[UnitDone]) -> Assembled:
    """Return what the index of a package says; `results` are in the order of the plan."""
    environment, manifest = plan.environment, plan.manifest
    everything = _different(results)
    failed = [*(r for r in everything if r.failure), *_conflicts(everything)]
    # By identity: to Python, units with the static values 1 and True are equal.
    gone = {id(result.unit) for result in failed}
    done = tuple(result for result in everything if id(result.unit) not in gone)
    functions = join_functions(r.function for r in done if r.function)
    header = {
        "aotbuild": environment.aotbuild,
        "fallback": manifest.fallback,
        "jax": ", ".join(dict.fromkeys(each.jax for each in environment.toolchains)),
        "jaxlib": ", ".join(dict.fromkeys(each.jaxlib for each in environment.toolchains)),
        "package": manifest.package,
    }
    return Assembled(header, tuple(functions), done, tuple(failed))


def _different(results: Iterable[UnitDone]) -> list[UnitDone]:
    """Drop units that feedback added and that have the signature of another one."""
    results = list(results)
    # Units of the plan first: two of them with one signature are a mistake.
    first: dict[tuple[str, ...], UnitDone] = {}
    for result in sorted(results, key=lambda r: bool(r.unit.fed_back)):
        if result.record:
            first.setdefault(identity_of(result.record), result)
    unique = {id(result.unit) for result in first.values()}
    return [r for r in results if not r.record or not r.unit.fed_back or id(r.unit) in unique]


def identity_of(record: Record) -> tuple[str, ...]:
    """Return what a call can tell a record by."""
    jaxlib = str(record.requires.jaxlib)
    return record.function, record.signature.key(), str(record.target), jaxlib


def join_functions(functions: Iterable[Function]) -> list[Function]:
    """Return the last function of each name, with what all know of its static data."""
    same: dict[str, list[Function]] = {}
    for function in functions:
        same.setdefault(function.name, []).append(function)
    return [_join(group) for group in same.values()]


def _join(functions: list[Function]) -> Function:
    references = {each for function in functions for each in function.references}
    donated = dict.fromkeys(name for function in functions for name in function.donate)
    return replace(functions[-1], references=tuple(sorted(references)), donate=tuple(donated))


def _conflicts(results: list[UnitDone]) -> Iterator[UnitDone]:
    """Yield as failed a unit that calls could not tell from another, or would pad differently."""
    first: dict[str, UnitDone] = {}
    likes: dict[str, dict[Any, str]] = {}
    seen: dict[tuple[str, ...], UnitDone] = {}
    for result in results:
        if result.record is None or result.function is None:
            continue
        known = first.setdefault(result.function.name, result)
        compared = likes.setdefault(result.function.name, {})
        if known.function and (problem := _other(known.function, result.function, compared)):
            message = f"{problem} {known.unit}\nMake two functions of it."
            yield result.failed(STAGE, message)
        same = seen.setdefault(identity_of(result.record), result)
        if same is not result:
            yield result.failed(STAGE, f"has the same signature as {same.unit}; remove one of them")


def _other(first: Function, function: Function, likes: dict[Any, str]) -> str | None:
    """Return how the calls of a function's units would be taken differently, if they would.

    `likes` are the references of all of its units so far, by place; this one's are added.
    """
    # Compared as JSON: a NaN to pad with does not equal itself.
    if function.pad is not None and first.to_json().get("pad") != function.to_json().get("pad"):
        return "pad: the trees differ from those of"
    if first.ignored != function.ignored:
        return "static_data: leads elsewhere in"
    if first.wrap != function.wrap:
        return "Only one of the signatures has objects of nnx; the others are like"
    if any(likes.setdefault(each[1:3], each[3]) != each[3] for each in function.references):
        return "like: static data is compared with another tree in"
    return None
