"""The plan: every compilation that a manifest asks for, known before anything is compiled. Pure."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import product

from packaging.version import Version

from aotbuild.errors import PlanError
from aotbuild.format.target import Target
from aotbuild.format.values import encode
from aotbuild.manifest import Function, Manifest
from aotbuild.platforms.building import Hardware, Request
from aotbuild.toolchains.toolchain import Environment, Toolchain

# A plan of so many takes ten seconds and 400 MB.
MAX_UNITS = 200_000
SymbolicRow = tuple[tuple[str, int | str], ...]
Statics = tuple[tuple[str | int, Hashable], ...]


@dataclass(frozen=True)
class BuildUnit:
    """Function × Signature × Target × Toolchain: one compilation.

    `place` is that of the signature in `function.each_signature`. `row` gives every dim its size,
    or its symbolic expression; `statics` gives every static argument, by name or position, its
    value. `suffix` tells units of several toolchains apart.
    A unit with `fed_back` is not in a plan: `first` is, and when that was traced, its result turned
    out to have other avals than the arguments under `feedback:`, which are those of this unit.
    `numpy_only`: the wheel requires no jax, so its results are arrays of numpy.
    """

    name: str
    function: Function
    row: SymbolicRow
    statics: Statics
    target: Target
    toolchain: Toolchain
    hardware: Hardware = field(default_factory=Hardware)
    place: int = 0
    suffix: str = ""
    numpy_only: bool = False
    fed_back: int = 0
    first: BuildUnit | None = field(default=None, compare=False, repr=False)

    @property
    def values_label(self) -> str:
        """Dims and static arguments for people, as `batch=1, causal=True`.

        The number of the signature comes first, where the manifest lists several: `#2, batch=1`.
        """
        several = len(self.function.signatures) > 1
        values = [f"#{self.place + 1}"] if several else []
        values += [f"{name}={value}" for name, value in self.row]
        values += [f"{name}={value!r}" for name, value in self.statics]
        return ", ".join(values)

    @property
    def signature_label(self) -> str:
        """Function and signature for people, as `logits(batch=1, causal=True)`."""
        return f"{self.name}({self.values_label}){after_feedback(self.fed_back)}"

    @property
    def devices(self) -> int:
        """The number of devices that the function's mesh spans; 1 without a mesh."""
        return self.function.devices

    def after_feedback(self) -> BuildUnit:
        """Return the unit of the call that gets this one's result."""
        return replace(self, fed_back=self.fed_back + 1, first=self.first or self)

    def __str__(self) -> str:
        return f"{self.signature_label} for {self.target}{self.suffix}"


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


def after_feedback(rounds: int) -> str:
    """Return what the label of a unit says after so many calls: nothing, or ` after feedback`."""
    return f" after feedback{'' if rounds == 1 else f' {rounds}'}" if rounds else ""


def make_plan(manifest: Manifest, environment: Environment) -> Plan:
    """Expand a manifest into build units; PlanError with every reason why it cannot be built."""
    problems = [*_toolchain_problems(manifest, environment)]
    problems += [
        f"targets: {problem}"
        for request in manifest.targets
        for toolchain in environment.toolchains
        for problem in request.description.problems(request, toolchain, environment)
    ]
    if problems:
        raise PlanError(_render(manifest, dict.fromkeys(problems)))
    count = sum(_count(manifest, environment, name) for name in manifest.functions)
    if count > MAX_UNITS:
        many = f"{count:,} build units; at most {MAX_UNITS:,} are built at once"
        raise PlanError(_render(manifest, [f"{many}: list the rows that are called, or split it"]))
    units = [unit for name in manifest.functions for unit in _units(manifest, environment, name)]
    idle = manifest.functions.keys() - {unit.name for unit in units}
    if idle:
        names = (name for name in manifest.functions if name in idle)
        problems = [f"functions.{name}: {_idle(manifest, name)}" for name in names]
        raise PlanError(_render(manifest, problems))
    return Plan(manifest, environment, _unique(units))


def _count(manifest: Manifest, environment: Environment, name: str) -> int:
    """Return about how many units a function has, without making them."""
    function = manifest.functions[name]
    expanded = (
        request.description.expand(request, function.devices, environment)
        for request in manifest.targets
    )
    targets = sum(1 for each in expanded for _ in each)
    signatures = sum(each.count for each in function.each_signature)
    return signatures * targets * len(environment.toolchains)


def _idle(manifest: Manifest, name: str) -> str:
    """Return why no target is for a function."""
    reason = "no target has its number of devices"
    if manifest.functions[name].mesh:
        return reason
    remedy = "add mesh: {axis: size}, with the axes of the mesh that the function uses"
    return f"{reason}, which is 1 without a mesh; {remedy}, or a target with devices: 1"


def _unique(units: Iterable[BuildUnit]) -> tuple[BuildUnit, ...]:
    """Drop units that a symbolic dim made equal; `1`, `1.0` and `True` stay different."""
    found: dict[tuple[str, int, SymbolicRow, str, Target, Toolchain], BuildUnit] = {}
    for unit in units:
        statics = repr([(name, encode(value)) for name, value in unit.statics])
        key = (unit.name, unit.place, unit.row, statics, unit.target, unit.toolchain)
        found.setdefault(key, unit)
    return tuple(found.values())


def _units(manifest: Manifest, environment: Environment, name: str) -> Iterator[BuildUnit]:
    function = manifest.functions[name]
    for place, row, statics, request in _signatures(function, manifest.targets):
        symbolic = tuple((dim, function.export.dims.get(dim, size)) for dim, size in row)
        for target, hardware in request.description.expand(request, function.devices, environment):
            for toolchain in _toolchains(target, environment):
                yield BuildUnit(
                    name,
                    function,
                    symbolic if target.is_portable else row,
                    statics,
                    target,
                    toolchain,
                    hardware,
                    place,
                    suffix=_suffix(target, toolchain, environment),
                    numpy_only=manifest.runtime == "jaxlib",
                )


def _signatures(
    function: Function, targets: Sequence[Request]
) -> Iterator[tuple[int, SymbolicRow, Statics, Request]]:
    for place, spec in enumerate(function.each_signature):
        for row, values, target in product(spec.rows, product(*spec.static.values()), targets):
            yield place, row, tuple(zip(spec.static, values, strict=True)), target


def _toolchains(target: Target, environment: Environment) -> tuple[Toolchain, ...]:
    """Return the toolchains that build a target: all, but one for a portable artifact.

    It is made by the oldest: jax reads what an older jax exported, and not the other way round.
    """
    if not target.is_portable:
        return environment.toolchains
    return (min(environment.toolchains, key=lambda toolchain: Version(toolchain.jax)),)


def _suffix(target: Target, toolchain: Toolchain, environment: Environment) -> str:
    is_plain = target.is_portable or len(environment.toolchains) == 1
    return "" if is_plain else f" with jaxlib {toolchain.jaxlib}"


def _toolchain_problems(manifest: Manifest, environment: Environment) -> Iterator[str]:
    """Yield where an environment is not the one of this manifest: see `find_environment`."""
    wanted = [request.jax for request in manifest.toolchains]
    found = [toolchain.jax for toolchain in environment.toolchains]
    if wanted and list(map(Version, wanted)) != list(map(Version, found)):
        yield f"toolchains: expected jax {', '.join(wanted)}, found {', '.join(found)}"
    jaxlibs = [toolchain.jaxlib for toolchain in environment.toolchains]
    for jaxlib in dict.fromkeys(jaxlibs):
        if jaxlibs.count(jaxlib) > 1:
            remedy = "nothing could tell their executables apart; keep one of them"
            yield f"toolchains: jaxlib {jaxlib} is that of several: {remedy}"


def _render(manifest: Manifest, problems: Iterable[str]) -> str:
    return "\n".join(f"{manifest.file}: {problem}" for problem in problems)
