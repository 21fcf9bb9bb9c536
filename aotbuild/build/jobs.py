"""Jobs: one trace each, of a function at one signature, with every target that is made from it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, PlainSerializer, PlainValidator

from aotbuild.build.plan import BuildUnit, after_feedback
from aotbuild.build.worker_settings import Settings
from aotbuild.format.canonical import mapping, text
from aotbuild.format.target import HOST, Target
from aotbuild.manifest import ArgSpec, Function, Parameters, bind_values
from aotbuild.platforms.building import Hardware, description
from aotbuild.toolchains.toolchain import Toolchain

Buckets = tuple[tuple[int, ...], ...]


def _target(value: Target | str) -> Target:
    if isinstance(value, Target):
        return value
    return Target.parse(text(value))


def _hardware(value: Hardware | dict[str, Any]) -> Hardware:
    return value if isinstance(value, Hardware) else Hardware.from_json(mapping(value))


class FedLeaf(BaseModel):
    """What may be another in the aval of a leaf that is passed back than in the argument's."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    dtype: str
    weak_type: bool


# The leaves of arguments under `feedback:`, by name.
Fed = dict[str, tuple[FedLeaf, ...]]


class Job(BaseModel):
    """A function at one signature, and the targets to make from its trace.

    `function` has one signature: one row of dims and one value of each static argument; those of
    the other jobs are left out, and `parameters` has the arguments of all. Where dims are symbolic,
    `symbolic` has the expression or size of each dim, and the row is the first of the signature
    with these sizes. `hardware` has what is known of each target. `buckets` are the sizes of the
    padded dims in all rows, each once, sorted. `golden` is as in the manifest, or why the function
    is not called this time. `fed` has what calls pass back: the result of the call before, the last
    being this job's. `numpy_only`: results will be arrays of numpy, which have no weak types.
    Without `shrink`, executables stay as XLA wrote them (`worker.thunk_rewrite`).
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    label: str
    function: Function
    targets: tuple[Annotated[Target, PlainValidator(_target), PlainSerializer(str)], ...]
    hardware: tuple[
        Annotated[Hardware, PlainValidator(_hardware), PlainSerializer(Hardware.to_json)], ...
    ]
    golden: Literal["auto", "always", "never", "sizes"]
    symbolic: dict[str, int | str] = {}
    buckets: Buckets = ()
    fed: tuple[Fed, ...] = ()
    numpy_only: bool = False
    shrink: bool = True
    parameters: Parameters

    @property
    def call(self) -> str:
        """Where the function is: ``module:qualname``."""
        return self.function.call

    @property
    def dims(self) -> dict[str, int]:
        """The size of every dim."""
        return dict(self.function.rows[0])

    @property
    def statics(self) -> tuple[tuple[str | int, Any], ...]:
        """The static arguments, by name or position, and their values."""
        return tuple((name, value) for name, (value,) in self.function.static.items())

    @property
    def args(self) -> dict[str, ArgSpec]:
        """The specs of positional arguments, in order, with the dims filled in."""
        return self._bound(self.function.positional)

    @property
    def kwargs(self) -> dict[str, ArgSpec]:
        """The specs of keyword arguments, with the dims filled in."""
        return self._bound(self.function.kwargs)

    def _bound(self, specs: Mapping[str, ArgSpec]) -> dict[str, ArgSpec]:
        row, statics = self.symbolic or self.dims, dict(self.statics)
        named = {name: value for name, value in statics.items() if isinstance(name, str)}
        return {name: bind_values(spec, row, named) for name, spec in specs.items()}

    def at(self, **sizes: int) -> Job:
        """Return the job where no dim is symbolic, with these sizes instead of its own."""
        dims = {**self.dims, **sizes}
        job = self.with_options(dims=(dims,)) if dims else self
        return job.model_copy(update={"symbolic": {}})

    def after_feedback(self, fed: Fed) -> Job:
        """Return the job of the next call, which gets the result of this job's."""
        fed_back = (*self.fed, fed)
        first = self.label.removesuffix(after_feedback(len(self.fed)))
        label = f"{first}{after_feedback(len(fed_back))}"
        return self.model_copy(update={"fed": fed_back, "label": label})

    def with_options(self, **options: Any) -> Job:
        """Return the job with other options of its function."""
        return self.model_copy(update={"function": self.function.model_copy(update=options)})

    def only(self, targets: Collection[str]) -> Job:
        """Return the job with only those of its targets."""
        pairs = zip(self.targets, self.hardware, strict=True)
        kept = [pair for pair in pairs if str(pair[0]) in targets]
        update = {"targets": tuple(t for t, _ in kept), "hardware": tuple(h for _, h in kept)}
        return self.model_copy(update=update)


# Toolchain, platform, cap and, where the whole process has only one, hardware.
_Place = tuple[Toolchain, str, str | None, Hardware | None]


def make_jobs(units: Sequence[BuildUnit]) -> list[tuple[Settings, Job, tuple[BuildUnit, ...]]]:
    """Group units that come from one trace in one process.

    Jobs of equal settings come one after another: a worker that changes them has to start again.
    """
    groups: dict[tuple[str, _Place, Hardware | None], list[BuildUnit]] = {}
    joined: dict[tuple[str, Toolchain], _Place] = {}
    for unit in units:
        if unit.target.platform == HOST:
            joined.setdefault((unit.signature_label, unit.toolchain), _place(unit))
    for unit in units:
        place = _place(unit)
        # A portable unit needs no process of its own: it joins the first trace of its signature.
        if unit.target.is_portable:
            place = joined.get((unit.signature_label, unit.toolchain), place)
        groups.setdefault((unit.signature_label, place, _seen(unit)), []).append(unit)
    functions = {unit.name: unit.function for unit in units}
    buckets = {name: _buckets(function) for name, function in functions.items()}
    jobs: dict[Settings, list[tuple[Settings, Job, tuple[BuildUnit, ...]]]] = {}
    for (_, place, _), members in groups.items():
        name, settings = members[0].name, _settings(members[0], place)
        job = _job(members, buckets[name])
        jobs.setdefault(settings, []).append((settings, job, tuple(members)))
    return [job for same in jobs.values() for job in same]


def _place(unit: BuildUnit) -> _Place:
    target = unit.target
    platform = HOST if target.is_portable else target.platform
    described = description(target.platform)
    hardware = unit.hardware if described.process.per_hardware else None
    return unit.toolchain, platform, described.cap(target, unit.toolchain), hardware


def _seen(unit: BuildUnit) -> Hardware | None:
    """Return the hardware that a job has only one of, if its platform says so."""
    return unit.hardware if description(unit.target.platform).process.job_per_hardware else None


def _settings(unit: BuildUnit, place: _Place) -> Settings:
    function = unit.function
    toolchain, platform, cap, hardware = place
    hoist = function.constants == "hoist"
    config, env = tuple(sorted(function.config.items())), tuple(function.env.items())
    return Settings(toolchain, platform, cap, function.devices, hoist, config, env, hardware)


def _buckets(function: Function) -> Buckets:
    if not function.pad:
        return ()
    rows = [dict(row) for each in function.each_signature for row in each.rows]
    return tuple(sorted({tuple(row[name] for name in function.pad) for row in rows}))


def _golden(unit: BuildUnit) -> Literal["auto", "always", "never", "sizes"]:
    """Return the mode of golden outputs: by default, the first sizes of a signature have them."""
    mode, rows = unit.function.verify.golden, unit.function.each_signature[unit.place].rows
    is_first = not rows or _sizes(unit) <= set(rows[0])
    return "sizes" if mode == "auto" and not is_first else mode


def _sizes(unit: BuildUnit) -> set[tuple[str, int | str]]:
    return {pair for pair in unit.row if isinstance(pair[1], int)}


def _first_row(unit: BuildUnit) -> dict[str, int]:
    """Return the first row of the signature that has the sizes of a unit with symbolic dims."""
    sizes = {pair for pair in unit.row if isinstance(pair[1], int)}
    rows = unit.function.each_signature[unit.place].rows
    return next(dict(row) for row in rows if sizes <= set(row))


def _job(units: list[BuildUnit], buckets: Buckets) -> Job:
    unit = units[0]
    row = dict(unit.row)
    is_symbolic = any(isinstance(size, str) for size in row.values())
    dims = _first_row(unit) if is_symbolic else row
    static = {name: (value,) for name, value in unit.statics}
    function = unit.function.with_signature(unit.function.each_signature[unit.place])
    return Job(
        name=unit.name,
        label=unit.signature_label,
        function=function.model_copy(
            update={**({"dims": (dims,)} if dims else {}), "static": static}
        ),
        parameters=unit.function.parameters,
        targets=tuple(member.target for member in units),
        hardware=tuple(member.hardware for member in units),
        golden=_golden(unit),
        symbolic=row if is_symbolic else {},
        buckets=buckets,
        numpy_only=unit.numpy_only,
    )
