"""What became of each unit of a plan, as plain data: all that an index is made from."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from aotbuild.build.events import UnitDone
from aotbuild.build.plan import BuildUnit, Plan
from aotbuild.errors import UnitFailure
from aotbuild.format.record import Record
from aotbuild.format.signature import Function


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
