"""Selecting: which records fit a host, and why the others do not. Pure: no jax, no environment."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Sequence

from aotbuild.frozen import dataclass
from aotbuild.platforms.base import Check, Host
from aotbuild.platforms.base import checks as platform_checks
from aotbuild.runtime import checks
from aotbuild.spec.record import Record


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
    """Return a verdict on every record, best first; those of other platforms are the last."""
    verdicts = [judge(record, host) for record in records]
    return tuple(sorted(verdicts, key=lambda verdict: _order(verdict, host)))


def judge(record: Record, host: Host) -> Verdict:
    """Return the verdict on one record."""
    asked, own = _CHECKS, platform_checks(host.platform)
    if host.platform in record.requires.platforms:
        asked += (*_DEVICES, *own.required, *_SOFTWARE)
    reasons = tuple(reason for check in asked if (reason := check(record, host)))
    if reasons:
        return Verdict(record, Grade.REFUSED, reasons)
    better = tuple(reason for look in own.better if (reason := look(record, host)))
    return Verdict(record, Grade.OK if better else Grade.OPTIMAL, better)


def portable_reasons(record: Record, host: Host) -> tuple[str, ...]:
    """Return why a portable record cannot be compiled on a host; empty if it can."""
    return tuple(reason for check in _PORTABLE if (reason := check(record, host)))


def _order(verdict: Verdict, host: Host) -> tuple[int | bool | str, ...]:
    record = verdict.record
    is_foreign = host.platform not in record.requires.platforms
    preference = platform_checks(record.target.platform).preference(record)
    return (-verdict.grade, is_foreign, *preference, str(record.target), record.blob.sha256)


_CHECKS: tuple[Check, ...] = (checks.check_portable, checks.check_platform)
# Only of what is for this platform: elsewhere they would say nothing.
_DEVICES: tuple[Check, ...] = (checks.check_arrays, checks.check_devices, checks.check_processes)
_SOFTWARE: tuple[Check, ...] = (
    checks.check_foreign,
    checks.check_jaxlib,
    checks.check_x64,
    checks.check_custom_calls,
)
_PORTABLE: tuple[Check, ...] = (
    checks.check_platform,
    checks.check_processes,
    checks.check_devices,
    checks.check_x64,
)


_JAXLIB = "jaxlib: "


def refusal_trace(verdicts: Iterable[Verdict], host: Host) -> list[str]:
    """Return lines that say why nothing runs on a host, what is for its platform first.

    A jaxlib that no executable for this platform was made with is named once, with all that are
    shipped. Records with the same reasons share a line, and so do those of another platform.
    """
    verdicts = tuple(verdicts)
    own = [v for v in verdicts if host.platform in v.record.requires.platforms]
    foreign = [v for v in verdicts if host.platform not in v.record.requires.platforms]
    lines: list[str] = []
    shipped = _other_jaxlibs(own, host)
    if shipped:
        expected = " or ".join(shipped)
        lines.append(
            f"every executable for {host.platform}: REFUSED: "
            f"{_JAXLIB}expected {expected}, found {host.jaxlib}"
        )
    groups: dict[tuple[str, tuple[str, ...]], list[Verdict]] = {}
    for verdict in own:
        reasons = verdict.reasons
        if shipped and not verdict.record.target.is_portable:
            reasons = tuple(reason for reason in reasons if not reason.startswith(_JAXLIB))
        if reasons:
            key = (verdict.record.target.platform, reasons)
            groups.setdefault(key, []).append(verdict)
    for verdict in foreign:
        key = (verdict.record.target.platform, verdict.reasons)
        groups.setdefault(key, []).append(verdict)
    return [*lines, *(_line(reasons, group) for (_, reasons), group in groups.items())]


def _other_jaxlibs(own: Sequence[Verdict], host: Host) -> list[str]:
    """Return the jaxlibs of several executables if none of them is the host's, else nothing."""
    needed = [v.record.requires.jaxlib for v in own if v.record.requires.jaxlib is not None]
    if len(needed) < 2 or host.jaxlib in needed:
        return []
    return sorted(set(needed), key=_by_number)


def _by_number(version: str) -> tuple[tuple[bool, int, str], ...]:
    return tuple(
        (part.isdecimal(), int(part[:9]) if part.isdecimal() else 0, part)
        for part in version.split(".")
    )


def _line(reasons: Sequence[str], group: Sequence[Verdict]) -> str:
    record = group[0].record
    why = "; ".join(reasons)
    if len(group) == 1:
        return f"{record}: REFUSED: {why}"
    details = ", ".join(dict.fromkeys(_details(group)))
    return f"{record.target.platform}: {len(group)} executables for {details}: REFUSED: {why}"


def _details(group: Sequence[Verdict]) -> Iterator[str]:
    for verdict in group:
        target = verdict.record.target
        yield target.detail if target.devices == 1 else f"{target.detail}:{target.devices}"
