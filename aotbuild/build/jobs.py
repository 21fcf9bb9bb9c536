"""Jobs, as the parent tells a worker in JSON, and the settings that the worker needs for each.

A job is one trace: a function at one signature, and every target that is made from it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from typing import Any

from aotbuild.build.plan import BuildUnit, mesh_size
from aotbuild.build.settings import Settings
from aotbuild.manifest import (
    ArgSpec,
    ExportOptions,
    FunctionEntry,
    Sharding,
    VerifyOptions,
    bind_dims,
    sharding_from_json,
    sharding_to_json,
    spec_from_json,
    spec_to_json,
)
from aotbuild.platforms.building import Hardware, description
from aotbuild.spec.padding import PaddedDim, one_nan
from aotbuild.spec.target import HOST, Target
from aotbuild.spec.values import decode, encode
from aotbuild.toolchains.toolchain import Toolchain

Named = tuple[tuple[str, ArgSpec], ...]


@dataclass(frozen=True)
class JobPadding:
    """The padded dims of a function, and what it takes to trace it at other sizes.

    `buckets` are the sizes of these dims in all rows, each once, sorted.
    """

    dims: tuple[PaddedDim, ...]
    buckets: tuple[tuple[int, ...], ...]
    args: Named
    kwargs: Named

    @classmethod
    def of(cls, function: FunctionEntry) -> JobPadding | None:
        """Return what jobs of a function are told; None where it pads nothing."""
        if not function.pad:
            return None
        names = [dim.name for dim in function.pad]
        buckets = {tuple(dict(row)[name] for name in names) for row in function.rows}
        return cls(function.pad, tuple(sorted(buckets)), function.args, function.kwargs)

    def at(self, job: Job, sizes: dict[str, int]) -> Job:
        """Return a job with other sizes of dims; those not given stay as they are."""
        row = {**dict(job.dims), **sizes}
        return replace(
            job,
            args=tuple((name, bind_dims(spec, row)) for name, spec in self.args),
            kwargs=tuple((name, bind_dims(spec, row)) for name, spec in self.kwargs),
            sample=(),
            dims=tuple(row.items()),
        )

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form; the inverse of `from_json`."""
        return {
            "dims": [[dim.name, encode(dim.value), dim.safe] for dim in self.dims],
            "buckets": [list(bucket) for bucket in self.buckets],
            "args": [[name, spec_to_json(spec)] for name, spec in self.args],
            "kwargs": [[name, spec_to_json(spec)] for name, spec in self.kwargs],
        }

    @classmethod
    def from_json(cls, data: dict[str, Any] | None) -> JobPadding | None:
        """Read what `to_json` wrote; None stays None."""
        if data is None:
            return None
        return cls(
            dims=tuple(
                PaddedDim(name, one_nan(decode(value)), safe) for name, value, safe in data["dims"]
            ),
            buckets=tuple(map(tuple, data["buckets"])),
            args=tuple((name, spec_from_json(spec)) for name, spec in data["args"]),
            kwargs=tuple((name, spec_from_json(spec)) for name, spec in data["kwargs"]),
        )


@dataclass(frozen=True)
class Job:
    """A function at one signature, with dims filled in, and the targets to make from its trace.

    Where dims are symbolic, `sample` holds the arguments of the first row, by name. `dims` has the
    size of every dim, in that case of the first row. `hardware` has what is known of each target.
    """

    name: str
    call: str
    label: str
    args: tuple[tuple[str, ArgSpec], ...]
    kwargs: tuple[tuple[str, ArgSpec], ...]
    statics: tuple[tuple[str | int, Any], ...]
    donate: tuple[str, ...]
    keep_unused: bool
    mesh: tuple[tuple[str, int], ...]
    in_shardings: tuple[tuple[str, Sharding], ...]
    out_shardings: Sharding
    out_shardings_given: bool
    compiler_options: tuple[tuple[str, Any], ...]
    config: tuple[tuple[str, Any], ...]
    export: ExportOptions
    targets: tuple[Target, ...]
    hardware: tuple[Hardware, ...]
    verify: VerifyOptions
    purity: str
    sample: tuple[tuple[str, ArgSpec], ...] = ()
    dims: tuple[tuple[str, int], ...] = ()
    pad: JobPadding | None = None
    startup: str = "steady"

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form; the inverse of `from_json`."""
        return {
            **{name: getattr(self, name) for name in _PLAIN},
            "args": [[name, spec_to_json(spec)] for name, spec in self.args],
            "kwargs": [[name, spec_to_json(spec)] for name, spec in self.kwargs],
            "statics": [[name, encode(value)] for name, value in self.statics],
            "in_shardings": [[name, sharding_to_json(s)] for name, s in self.in_shardings],
            "out_shardings": sharding_to_json(self.out_shardings),
            "export": vars(self.export),
            "verify": vars(self.verify),
            "targets": [str(target) for target in self.targets],
            "hardware": [hardware.to_json() for hardware in self.hardware],
            "sample": [[name, spec_to_json(spec)] for name, spec in self.sample],
            "pad": self.pad.to_json() if self.pad else None,
        }

    def only(self, targets: Collection[str]) -> Job:
        """Return the job with only those of its targets."""
        pairs = zip(self.targets, self.hardware, strict=True)
        kept = [pair for pair in pairs if str(pair[0]) in targets]
        hardware = tuple(hardware for _, hardware in kept)
        return replace(self, targets=tuple(target for target, _ in kept), hardware=hardware)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Job:
        """Read what `to_json` wrote."""
        return cls(
            **{name: data[name] for name in _SCALARS},
            donate=tuple(data["donate"]),
            mesh=_pairs(data["mesh"]),
            dims=_pairs(data["dims"]),
            compiler_options=_pairs(data["compiler_options"]),
            config=_pairs(data["config"]),
            args=tuple((name, spec_from_json(spec)) for name, spec in data["args"]),
            kwargs=tuple((name, spec_from_json(spec)) for name, spec in data["kwargs"]),
            statics=tuple((name, decode(value)) for name, value in data["statics"]),
            in_shardings=tuple((n, sharding_from_json(s)) for n, s in data["in_shardings"]),
            out_shardings=sharding_from_json(data["out_shardings"]),
            export=_export_from_json(data["export"]),
            verify=VerifyOptions(**data["verify"]),
            targets=tuple(map(Target.parse, data["targets"])),
            hardware=tuple(map(Hardware.from_json, data["hardware"])),
            sample=tuple((name, spec_from_json(spec)) for name, spec in data["sample"]),
            pad=JobPadding.from_json(data["pad"]),
        )


_SCALARS = ("name", "call", "label", "keep_unused", "out_shardings_given", "purity", "startup")
_PLAIN = (*_SCALARS, "donate", "mesh", "dims", "compiler_options", "config")


# Toolchain, platform and cap: what a process compiles for.
_Place = tuple[Toolchain, str, str | None]


def make_jobs(units: Iterable[BuildUnit]) -> list[tuple[Settings, Job, tuple[BuildUnit, ...]]]:
    """Group units that come from one trace in one process.

    Jobs of equal settings come one after another: a worker that changes them has to start again.
    """
    groups: dict[tuple[str, _Place, Hardware | None], list[BuildUnit]] = {}
    joined: dict[tuple[str, Toolchain], _Place] = {}
    for unit in units:
        place = _place(unit)
        if unit.target.platform == HOST:
            joined.setdefault((unit.signature_label, unit.toolchain), place)
        # A portable unit has no cap of its own: it joins the first trace of its signature.
        elif unit.target.is_portable:
            place = joined.get((unit.signature_label, unit.toolchain), place)
        groups.setdefault((unit.signature_label, place, _seen(unit)), []).append(unit)
    jobs: dict[Settings, list[tuple[Settings, Job, tuple[BuildUnit, ...]]]] = {}
    for (_, place, _), members in groups.items():
        settings = _settings(members[0], place)
        jobs.setdefault(settings, []).append((settings, _job(members), tuple(members)))
    return [job for same in jobs.values() for job in same]


def _place(unit: BuildUnit) -> _Place:
    target = unit.target
    platform = HOST if target.is_portable else target.platform
    return unit.toolchain, platform, description(target.platform).cap(target, unit.toolchain)


def _seen(unit: BuildUnit) -> Hardware | None:
    """Return the hardware that a job has only one of, if its platform says so."""
    return unit.hardware if description(unit.target.platform).process.job_per_hardware else None


def _settings(unit: BuildUnit, place: _Place) -> Settings:
    function = unit.function
    one = description(unit.target.platform).process.per_hardware
    hoist = function.constants == "hoist"
    config = tuple(sorted(function.config))
    return Settings(
        *place, mesh_size(function), hoist, config, function.env, unit.hardware if one else None
    )


def _job(units: list[BuildUnit]) -> Job:
    unit, function = units[0], units[0].function
    row = dict(unit.row)
    return Job(
        name=function.name,
        call=function.call,
        label=unit.signature_label,
        args=tuple((name, bind_dims(spec, row)) for name, spec in function.args),
        kwargs=tuple((name, bind_dims(spec, row)) for name, spec in function.kwargs),
        statics=unit.statics,
        donate=function.donate,
        keep_unused=function.keep_unused,
        mesh=function.mesh,
        in_shardings=function.in_shardings,
        out_shardings=function.out_shardings,
        out_shardings_given=function.out_shardings_given,
        compiler_options=function.compiler_options,
        config=function.config,
        export=function.export,
        targets=tuple(member.target for member in units),
        hardware=tuple(member.hardware for member in units),
        verify=function.verify,
        purity=function.purity,
        sample=_sample(unit),
        dims=_sizes(unit),
        pad=JobPadding.of(function),
        startup=function.startup,
    )


def _sample(unit: BuildUnit) -> tuple[tuple[str, ArgSpec], ...]:
    if not _is_symbolic(unit):
        return ()
    specs = (*unit.function.args, *unit.function.kwargs)
    return tuple((name, bind_dims(spec, dict(_sizes(unit)))) for name, spec in specs)


def _sizes(unit: BuildUnit) -> tuple[tuple[str, int], ...]:
    row = unit.function.rows[0] if _is_symbolic(unit) else unit.row
    return tuple((name, size) for name, size in row if isinstance(size, int))


def _is_symbolic(unit: BuildUnit) -> bool:
    return any(isinstance(size, str) for _, size in unit.row)


def _export_from_json(data: dict[str, Any]) -> ExportOptions:
    return ExportOptions(
        dims=_pairs(data["dims"]),
        constraints=tuple(data["constraints"]),
        vjp_order=data["vjp_order"],
        disabled_checks=tuple(data["disabled_checks"]),
    )


def _pairs(data: Any) -> tuple[Any, ...]:
    return tuple(tuple(pair) for pair in data)
