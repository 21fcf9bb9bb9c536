"""Checks that a CPU has the features that an executable uses."""

from __future__ import annotations

from aotbuild.format.record import Record
from aotbuild.format.target import Target
from aotbuild.platforms.base import Checks, Host, check_plugin
from aotbuild.platforms.cpu.isa import LEVELS, best_level, level_of, missing_features, rank


def check_isa(record: Record, host: Host) -> str | None:
    isa = record.requires.isa
    if isa is None:
        return None
    if isa not in LEVELS:
        return f"isa: {isa} is unknown to this aotbuild"
    missing = missing_features(isa, host.architecture, host.features)
    if not missing:
        return None
    if not host.features and LEVELS[isa].architecture == host.architecture:
        return f"isa: {isa} needs {', '.join(missing)}; this system does not say what its CPU has"
    return f"isa: {isa} needs {', '.join(missing)}, which this CPU ({host.architecture}) lacks"


def check_features(record: Record, host: Host) -> str | None:
    missing = sorted(set(record.requires.features) - host.features)
    return (
        f"features: the code uses {', '.join(missing)}, which this CPU lacks" if missing else None
    )


def better_isa(record: Record, host: Host) -> str | None:
    best = best_level(host.architecture, host.features)
    return None if record.requires.isa in (None, best) else f"this CPU could use {best}"


class CpuChecks(Checks):
    """See `Checks`."""

    of_machine = (check_isa, check_features)
    required = (*of_machine, check_plugin)
    better = (better_isa,)
    device_hint = " (XLA_FLAGS=--xla_force_host_platform_device_count={needed} makes more)"

    def check_target(self, target: Target) -> None:
        level_of(target.detail)

    def rank(self, detail: str) -> int:
        return rank(detail) if detail in LEVELS else -1

    def runs(self, detail: str, on: str) -> bool:
        if detail not in LEVELS or on not in LEVELS:
            return detail == on
        return not missing_features(detail, LEVELS[on].architecture, LEVELS[on].features)

    def preference(self, record: Record) -> tuple[int, int]:
        return -1 - self.rank(record.requires.isa or ""), -len(record.requires.features)


PLATFORM = CpuChecks()
