"""What became of each unit of a plan, as plain data: all that an index is made from.

A shard writes the results of its units into a file; `aotbuild merge` reads those of all shards, and
goes on as one build of everything would.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from aotbuild.build.events import UnitDone
from aotbuild.build.left_out import reason, without_folders
from aotbuild.build.plan import BuildUnit, Plan
from aotbuild.errors import UnitFailure
from aotbuild.format.canonical import (
    canonical_json,
    flag,
    mapping,
    optional,
    read_canonical,
    sha256_hex,
    text,
    texts,
    whole,
)
from aotbuild.format.left_out import LONGEST_LABEL, LeftOut
from aotbuild.format.record import Record
from aotbuild.format.record_json import record_from_json, record_to_json
from aotbuild.format.signature import Function
from aotbuild.format.sources import SourceDigests
from aotbuild.format.values import cut

FORMAT = 1


@dataclass(frozen=True)
class Planned:
    """A unit of a plan.

    `number` is its place in the plan, `fed_back` is as in `BuildUnit`, and `toolchain` the place of
    its toolchain among those of the environment. `jaxlib` is None for a portable form.
    """

    number: int
    name: str
    label: str
    signature: str
    target: str
    toolchain: int
    jaxlib: str | None = None
    fed_back: int = 0


@dataclass(frozen=True)
class Result:
    """A unit's function and record, or why it failed; the rest is as in `UnitDone`."""

    unit: Planned
    function: Function | None = None
    record: Record | None = None
    failure: UnitFailure | None = None
    key: str | None = None

    def failed(self, stage: str, message: str) -> Result:
        """Return it as a unit that failed after it was compiled."""
        failure = UnitFailure(self.unit.label, stage, message)
        key = self.record.signature.key() if self.record else self.key
        return Result(self.unit, self.function, failure=failure, key=key)

    def left_out(self, secrets: Collection[str]) -> LeftOut:
        """Return the entry in an index that lacks the unit because it failed."""
        assert self.failure is not None, "only units that failed are left out"
        unit = self.unit
        return LeftOut(
            function=unit.name,
            signature=cut(without_folders(unit.signature, secrets), LONGEST_LABEL),
            target=unit.target,
            stage=self.failure.stage,
            reason=reason(self.failure.message, secrets),
            jaxlib=unit.jaxlib,
            key=self.key,
        )

    def without(self, secrets: Collection[str]) -> Result:
        """Return it as an index may have it: without paths of this machine."""
        label, signature = (
            without_folders(each, secrets) for each in (self.unit.label, self.unit.signature)
        )
        unit = replace(self.unit, label=label, signature=signature)
        if self.failure is None:
            return replace(self, unit=unit)
        message = reason(self.failure.message, secrets)
        return replace(self, unit=unit, failure=UnitFailure(label, self.failure.stage, message))

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form; the inverse of `from_json`."""
        found = {
            "unit": vars(self.unit),
            "function": self.function and self.function.to_json(),
            "record": self.record and record_to_json(self.record),
            "failure": self.failure and [self.failure.stage, self.failure.message],
            "key": self.key,
        }
        return {name: value for name, value in found.items() if value is not None}

    @classmethod
    def from_json(cls, data: Any) -> Result:
        """Read what `to_json` wrote; ValueError for anything else."""
        try:
            unit = Planned(**data["unit"])
            list(map(whole, (unit.number, unit.toolchain, unit.fed_back)))
            list(map(text, (unit.name, unit.label, unit.signature, unit.target)))
            optional(text, unit.jaxlib)
            failure = data.get("failure")
            return cls(
                unit,
                optional(Function.from_json, data.get("function")),
                optional(record_from_json, data.get("record")),
                optional(partial(_failure, unit.label), failure),
                optional(text, data.get("key")),
            )
        except (KeyError, TypeError, AttributeError) as err:
            msg = f"not the result of a unit: {type(err).__name__}: {err}"
            raise ValueError(msg) from err


def _failure(label: str, data: Any) -> UnitFailure:
    stage, message = data
    return UnitFailure(label, text(stage), text(message))


@dataclass(frozen=True)
class PlanFacts:
    """What a plan says of the whole package.

    `manifest` is the manifest's digest. `stages` is where kept stages go, and `platform` the tag of
    wheels with executables. `toolchains` have their jax and jaxlib, and all of their versions.
    """

    manifest: str
    aotbuild: str
    package: str
    fallback: str
    stages: str
    platform: str
    toolchains: tuple[tuple[str, str, str], ...]

    @classmethod
    def of(cls, plan: Plan) -> PlanFacts:
        """Return what a plan says."""
        manifest, environment = plan.manifest, plan.environment
        return cls(
            manifest.digest,
            environment.aotbuild,
            manifest.package,
            manifest.fallback,
            manifest.keep.where,
            environment.wheel_platform,
            tuple((each.jax, each.jaxlib, str(each)) for each in environment.toolchains),
        )

    @classmethod
    def from_json(cls, data: Any) -> PlanFacts:
        """Read what `vars` gave; ValueError or TypeError for anything else."""
        toolchains = tuple((text(a), text(b), text(c)) for a, b, c in data["toolchains"])
        found = cls(**{**data, "toolchains": toolchains})
        list(map(text, (value for name, value in vars(found).items() if name != "toolchains")))
        return found


def results_of(plan: Plan, run: Iterable[UnitDone]) -> list[Result]:
    """Return the results of a build of a plan, or of some of its units."""
    # By identity: to Python, units with the static values 1 and True are equal.
    numbers = {id(unit): number for number, unit in enumerate(plan.units)}
    toolchains = {each: place for place, each in enumerate(plan.environment.toolchains)}
    return [
        Result(
            _planned(
                done.unit,
                numbers[id(done.unit.first or done.unit)],
                toolchains[done.unit.toolchain],
            ),
            done.function,
            done.record,
            done.failure,
            done.key,
        )
        for done in run
    ]


def _planned(unit: BuildUnit, number: int, toolchain: int) -> Planned:
    return Planned(
        number,
        unit.name,
        str(unit),
        unit.signature_label,
        str(unit.target),
        toolchain,
        None if unit.target.is_portable else unit.toolchain.jaxlib,
        unit.fed_back,
    )


@dataclass(frozen=True)
class ShardFile:
    """The file of a shard: what is the same in all of them, and the results of its units.

    `units` are the labels of all units of the plan, and `shards` the number of the shard that has
    each. With `keep_going`, units that fail are left out. `sources` are the files it imported.
    """

    facts: PlanFacts
    units: tuple[str, ...]
    shards: tuple[int, ...]
    keep_going: bool
    sources: SourceDigests
    results: tuple[Result, ...]

    @property
    def plan(self) -> str:
        """The digest of what all shards build together."""
        return sha256_hex(canonical_json([_facts_json(self.facts), list(self.units)]))

    @property
    def split(self) -> str:
        """The digest of which shard has which unit."""
        return sha256_hex(canonical_json(list(self.shards)))

    def to_bytes(self) -> bytes:
        """Return the bytes of the file; the inverse of `from_bytes`."""
        sources = {**vars(self.sources), "files": dict(self.sources.files)}
        head = {
            "format": FORMAT,
            "facts": _facts_json(self.facts),
            "units": list(self.units),
            "shards": list(self.shards),
            "keep_going": self.keep_going,
            "sources": sources,
        }
        lines = (head, *(result.to_json() for result in self.results))
        return b"".join(canonical_json(line) + b"\n" for line in lines)

    @classmethod
    def from_bytes(cls, data: bytes) -> ShardFile:
        """Read what `to_bytes` wrote; ValueError for anything else."""
        try:
            head, *lines = map(read_canonical, data.split(b"\n")[:-1])
            if head["format"] != FORMAT:
                msg = f"expected format {FORMAT}, found {head['format']!r}"
                raise ValueError(msg)
            sources = head["sources"]
            found = cls(
                PlanFacts.from_json(head["facts"]),
                texts(head["units"]),
                tuple(map(whole, head["shards"])),
                flag(head["keep_going"]),
                SourceDigests(
                    _digests(sources["files"]),
                    text(sources["import_root"]),
                    optional(text, sources["manifest"]),
                    optional(text, sources.get("content")),
                ),
                tuple(map(Result.from_json, lines)),
            )
            found._check()
            return found
        except (KeyError, TypeError, AttributeError) as err:
            msg = f"not the results of a shard: {type(err).__name__}: {err}"
            raise ValueError(msg) from err

    def _check(self) -> None:
        """Raise ValueError if what it says of units, shards and results does not go together."""
        count, toolchains = len(self.units), len(self.facts.toolchains)
        if len(self.shards) != count:
            msg = f"expected the shards of {count} units, found {len(self.shards)}"
            raise ValueError(msg)
        seen: set[tuple[int, int]] = set()
        for result in self.results:
            unit = result.unit
            place = (unit.number, unit.fed_back)
            is_known = 0 <= unit.number < count and 0 <= unit.toolchain < toolchains
            is_done = result.function is not None and result.record is not None
            if not is_known or place in seen or is_done == (result.failure is not None):
                msg = f"the result of {cut(unit.label, LONGEST_LABEL)} is of no unit of the plan"
                raise ValueError(msg)
            seen.add(place)


def _digests(data: Any) -> dict[str, str]:
    return {text(name): text(digest) for name, digest in mapping(data).items()}


def _facts_json(facts: PlanFacts) -> dict[str, Any]:
    return {**vars(facts), "toolchains": list(map(list, facts.toolchains))}
