"""Selecting: which records fit a host, and why the others do not. Pure: no jax, no environment."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from aotbuild.runtime.host import Host
from aotbuild.spec.isa import LEVELS, missing_features, rank
from aotbuild.spec.record import CustomCall, Record


class Grade(enum.IntEnum):
    """How well a record fits; higher is better."""

    REFUSED = 0
    OK = 1
    OPTIMAL = 2


@dataclass(frozen=True)
class Verdict:
    """A record on a host: its grade, and every reason against it."""

    record: Record
    grade: Grade
    reasons: tuple[str, ...] = ()

    def __str__(self) -> str:
        why = f": {'; '.join(self.reasons)}" if self.reasons else ""
        return f"{self.record}: {self.grade.name}{why}"

    @property
    def fits(self) -> bool:
        """Whether it may be loaded here."""
        return self.grade is not Grade.REFUSED


def select(records: Iterable[Record], host: Host) -> tuple[Verdict, ...]:
    """Return a verdict on every record, best first."""
    verdicts = [judge(record, host) for record in records]
    return tuple(sorted(verdicts, key=_order))


def judge(record: Record, host: Host) -> Verdict:
    """Return the verdict on one record."""
    reasons = tuple(reason for check in _CHECKS if (reason := check(record, host)))
    if reasons:
        return Verdict(record, Grade.REFUSED, reasons)
    best = record.requires.isa is None or record.requires.isa == host.isa
    if best:
        return Verdict(record, Grade.OPTIMAL)
    return Verdict(record, Grade.OK, (f"this CPU could use {host.isa}",))


def _order(verdict: Verdict) -> tuple[int, int, str, str]:
    isa = verdict.record.requires.isa
    level = rank(isa) if isa in LEVELS else -1
    return (-verdict.grade, -level, str(verdict.record.target), verdict.record.blob.sha256)


def _check_portable(record: Record, _: Host) -> str | None:
    if record.target.is_portable:
        return "portable: compiled at first use, and only with fallback: portable"
    return None


def _check_platform(record: Record, host: Host) -> str | None:
    if host.platform in record.requires.platforms:
        return None
    return f"platform: expected {' or '.join(record.requires.platforms)}, found {host.platform}"


def _check_devices(record: Record, host: Host) -> str | None:
    needed = record.requires.devices
    if needed <= host.device_count:
        return None
    hint = ""
    if host.platform == "cpu":
        hint = f" (XLA_FLAGS=--xla_force_host_platform_device_count={needed} makes more)"
    return f"devices: expected {needed}, found {host.device_count}{hint}"


def _check_processes(record: Record, host: Host) -> str | None:
    needed = record.requires.processes
    if needed == host.process_count:
        return None
    return f"processes: expected {needed}, found {host.process_count}"


def _check_isa(record: Record, host: Host) -> str | None:
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


def _check_jaxlib(record: Record, host: Host) -> str | None:
    needed = record.requires.jaxlib
    if needed is None or needed == host.jaxlib:
        return None
    return f"jaxlib: expected {needed}, found {host.jaxlib}"


def _check_x64(record: Record, host: Host) -> str | None:
    if record.requires.x64 == host.x64:
        return None
    return f"jax_enable_x64: expected {record.requires.x64}, found {host.x64}"


def _check_custom_calls(record: Record, host: Host) -> str | None:
    missing = [c for c in record.requires.custom_calls if not _is_registered(c, host)]
    if not missing:
        return None
    names = ", ".join(f"{call.target} ({call.provider})" for call in missing)
    hint = "; import the package that registers them" if missing[0].provider == "user" else ""
    return f"custom calls not registered: {names}{hint}"


def _is_registered(call: CustomCall, host: Host) -> bool:
    if call.provider == "xla":
        return True
    if call.provider == "lapack":
        return host.lapack
    return call.target in host.custom_calls


_CHECKS: tuple[Callable[[Record, Host], str | None], ...] = (
    _check_portable,
    _check_platform,
    _check_devices,
    _check_processes,
    _check_isa,
    _check_jaxlib,
    _check_x64,
    _check_custom_calls,
)
