"""The plan: every compilation that a manifest asks for, known before anything is compiled. Pure."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from itertools import product
from math import prod

from packaging.version import Version

from aotbuild.build.environment import Environment, Toolchain
from aotbuild.build.manifest import (
    CpuTarget,
    FunctionEntry,
    Manifest,
    PortableTarget,
    StaticArg,
)
from aotbuild.errors import PlanError
from aotbuild.spec.isa import missing_level_reason
from aotbuild.spec.target import Target
from aotbuild.spec.values import encode

Row = tuple[tuple[str, int | str], ...]
Statics = tuple[tuple[str | int, Hashable], ...]


@dataclass(frozen=True)
class BuildUnit:
    """Function × Signature × Target × Toolchain: one compilation.

    `row` gives every dim its size, or its symbolic expression; `statics` gives every static
    argument, by name or position, its value.
    """

    function: FunctionEntry
    row: Row
    statics: Statics
    target: Target
    toolchain: Toolchain

    @property
    def values_label(self) -> str:
        """Dims and static arguments for people, as `batch=1, causal=True`."""
        values = [f"{name}={value}" for name, value in self.row]
        values += [f"{name}={value!r}" for name, value in self.statics]
        return ", ".join(values)

    @property
    def signature_label(self) -> str:
        """Function and signature for people, as `logits(batch=1, causal=True)`."""
        return f"{self.function.name}({self.values_label})"

    @property
    def devices(self) -> int:
        """The number of devices that the function's mesh spans; 1 without a mesh."""
        return mesh_size(self.function)

    def __str__(self) -> str:
        return f"{self.signature_label} for {self.target}"


@dataclass(frozen=True)
class Plan:
    """All build units of a manifest in one environment, in the manifest's order."""

    manifest: Manifest
    environment: Environment
    units: tuple[BuildUnit, ...]

    @property
    def native(self) -> bool:
        """Whether any unit is an executable rather than portable StableHLO."""
        return any(not unit.target.is_portable for unit in self.units)


def make_plan(manifest: Manifest, environment: Environment) -> Plan:
    """Expand a manifest into build units; PlanError with every reason why it cannot be built."""
    problems = [*_toolchain_problems(manifest, environment)]
    problems += [reason for t in manifest.targets if (reason := _unsupported(t, environment))]
    if problems:
        raise PlanError(_render(manifest, problems))
    units = [u for function in manifest.functions for u in _units(manifest, environment, function)]
    built = {unit.function.name for unit in units}
    idle = [f.name for f in manifest.functions if f.name not in built]
    if idle:
        problems = [f"functions.{name}: no target has its number of devices" for name in idle]
        raise PlanError(_render(manifest, problems))
    return Plan(manifest, environment, _unique(units))


def mesh_size(function: FunctionEntry) -> int:
    """Return the number of devices that a function's mesh spans; 1 without a mesh."""
    return prod(size for _, size in function.mesh)


def _unique(units: Iterable[BuildUnit]) -> tuple[BuildUnit, ...]:
    """Drop units that a symbolic dim made equal; `1`, `1.0` and `True` stay different."""
    found: dict[tuple[str, Row, str, Target], BuildUnit] = {}
    for unit in units:
        statics = repr([(name, encode(value)) for name, value in unit.statics])
        found.setdefault((unit.function.name, unit.row, statics, unit.target), unit)
    return tuple(found.values())


def _units(
    manifest: Manifest, environment: Environment, function: FunctionEntry
) -> Iterator[BuildUnit]:
    rows: list[Row] = list(function.rows)
    for row, statics in product(rows, _static_values(function)):
        for request in manifest.targets:
            for target in _targets(request, function, environment):
                given = _symbolic_row(row, function) if target.is_portable else row
                yield BuildUnit(function, given, statics, target, environment.toolchain)


def _static_values(function: FunctionEntry) -> Iterator[Statics]:
    names = [_static_key(static) for static in function.statics]
    for values in product(*(static.values for static in function.statics)):
        yield tuple(zip(names, values, strict=True))


def _static_key(static: StaticArg) -> str | int:
    if static.name is not None:
        return static.name
    assert static.position is not None, "a static argument has a name or a position"
    return static.position


def _symbolic_row(row: Row, function: FunctionEntry) -> Row:
    symbolic = dict(function.export.dims)
    return tuple((name, symbolic.get(name, size)) for name, size in row)


def _targets(
    request: object, function: FunctionEntry, environment: Environment
) -> Iterator[Target]:
    devices = mesh_size(function)
    if isinstance(request, PortableTarget):
        yield Target("portable", ",".join(sorted(request.platforms)), devices)
    elif isinstance(request, CpuTarget) and request.devices in (None, devices):
        for level in request.isa:
            yield Target("cpu", _level(level, environment), devices)


def _level(level: str, environment: Environment) -> str:
    return (environment.isa or level) if level == "host" else level


def _unsupported(request: object, environment: Environment) -> str | None:
    if isinstance(request, PortableTarget):
        return None
    if not isinstance(request, CpuTarget):
        kind = type(request).__name__.removesuffix("Target").lower()
        return f"targets: {kind}: this version of aotbuild builds cpu and portable targets only"
    if environment.isa is None:
        return "targets: cpu: this machine's CPU is below every level that jaxlib supports"
    reasons = (
        missing_level_reason(level, environment.architecture, environment.isa)
        for level in request.isa
        if level != "host"
    )
    return next((f"targets: cpu: {reason}" for reason in reasons if reason), None)


def _toolchain_problems(manifest: Manifest, environment: Environment) -> Iterator[str]:
    found = environment.toolchain
    if len(manifest.toolchains) > 1:
        yield "toolchains: this version of aotbuild builds with one toolchain"
    for request in manifest.toolchains:
        if Version(request.jax) != Version(found.jax):
            yield f"toolchains: expected jax {request.jax}, found {found.jax}; build with pip wheel"
        if request.python and not found.python.startswith(f"{request.python}."):
            yield f"toolchains: expected Python {request.python}, found {found.python}"


def _render(manifest: Manifest, problems: list[str]) -> str:
    return "\n".join(f"{manifest.file}: {problem}" for problem in problems)
