"""Compatibility: which records fit a host, and why the others do not. No jax, no environment.

A check is a small function that returns a reason against a record, or None. Those of every platform
are at the end of this file; each platform adds its own in `platforms/<name>/checks.py`.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from aotbuild.format.record import Record
from aotbuild.platforms.base import Check, Host, checks

_JAXLIB = "jaxlib: "


class Grade(enum.IntEnum):
    """How well a record fits a host; higher is better."""

    REFUSED = 0
    OK = 1
    OPTIMAL = 2


@dataclass(frozen=True)
class Verdict:
    """The verdict on a record for one host. `str()` gives the line that errors show.

    Attributes:
        record: The record of the executable.
        grade: `REFUSED`, `OK` (it runs, and another build could be faster) or `OPTIMAL`.
        reasons: Every reason against it; for `OK`, what could be better.
    """

    record: Record
    grade: Grade
    reasons: tuple[str, ...] = ()

    def __str__(self) -> str:
        why = f": {'; '.join(self.reasons)}" if self.reasons else ""
        return f"{self.record}: {self.grade.name}{why}"

    @property
    def fits(self) -> bool:
        """Whether the executable may be loaded on this host."""
        return self.grade is not Grade.REFUSED


def select(records: Iterable[Record], host: Host) -> tuple[Verdict, ...]:
    """Return a verdict on every record, the best first, those of other platforms last."""
    verdicts = [judge(record, host) for record in records]
    if len(verdicts) == 1:
        return (verdicts[0],)
    return tuple(sorted(verdicts, key=lambda verdict: _order(verdict, host)))


def by_signature(records: Iterable[Record], host: Host) -> list[tuple[Verdict, ...]]:
    """Return the verdicts on a function's records for each of its signatures, the best first.

    Signatures that only a portable form has are left out if the function has executables: such a
    form may be for any size, and then its signature is that of an example.
    """
    groups: dict[str, list[Record]] = {}
    for record in records:
        groups.setdefault(record.signature.key(), []).append(record)
    native = [group for group in groups.values() if not all(r.target.is_portable for r in group)]
    return [select(group, host) for group in native or groups.values()]


def judge(record: Record, host: Host) -> Verdict:
    """Return the verdict on one record."""
    asked, own = _CHECKS, checks(host.platform)
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
    preference = checks(record.target.platform).preference(record)
    return (-verdict.grade, is_foreign, *preference, str(record.target), record.blob.sha256)


# --- the text of a refusal ----------------------------------------------------------------------

CHANGE_CALL = "Call it with what was compiled, or add this call to the manifest and build again."
CHANGE_HOST = "Change what a reason names, or install a wheel that was built for this host."


def remedy(first: str, fallbacks: Sequence[str]) -> str:
    """Return what to do about a refusal: `first`, or one of the fallbacks that would help."""
    if not fallbacks:
        return first
    chosen = " or =".join(fallbacks)
    return f"{first} AOTBUILD_FALLBACK={chosen} compiles such calls when they are made."


def refusal_trace(verdicts: Iterable[Verdict], host: Host) -> list[str]:
    """Return lines that say why records are refused on a host, those of its platform first.

    If no executable was made with the host's jaxlib, one line says so for all. Records with the
    same platform and the same reasons share a line. What fits has none.
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
        if reasons and not verdict.fits:
            key = (verdict.record.target.platform, reasons)
            groups.setdefault(key, []).append(verdict)
    for verdict in foreign:
        key = (verdict.record.target.platform, verdict.reasons)
        groups.setdefault(key, []).append(verdict)
    return [*lines, *(_line(reasons, group) for (_, reasons), group in groups.items())]


def _other_jaxlibs(own: Sequence[Verdict], host: Host) -> list[str]:
    """Return the jaxlibs that several executables need, if none of them is the host's."""
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


# --- checks of every platform -------------------------------------------------------------------


def check_portable(record: Record, host: Host) -> str | None:
    if record.target.is_portable:
        needed = "fallback: portable" if host.arrays == "jax" else 'load(…, arrays="jax")'
        return f"portable: compiled at first use, and only with {needed}"
    return None


def check_platform(record: Record, host: Host) -> str | None:
    if host.platform in record.requires.platforms:
        return None
    return f"platform: expected {' or '.join(record.requires.platforms)}, found {host.platform}"


def check_processes(record: Record, host: Host) -> str | None:
    needed = record.requires.processes
    if needed < 1 or record.requires.devices % needed:
        return f"processes: {needed} cannot share {record.requires.devices} devices"
    # An executable for one process runs in each of several.
    if needed in (1, host.process_count):
        return None
    return f"processes: expected {needed}, found {host.process_count}"


def check_devices(record: Record, host: Host) -> str | None:
    needed, processes = record.requires.devices, record.requires.processes
    if processes > 1 and needed % processes == 0:
        share, everywhere = needed // processes, host.devices_everywhere or host.device_count
        if share <= host.device_count and needed <= everywhere:
            return None
        expected = f"{needed} ({share} in each of {processes} processes)"
        return f"devices: expected {expected}, found {everywhere} ({host.device_count} in this one)"
    if needed <= host.device_count:
        return None
    hint = checks(host.platform).device_hint.format(needed=needed)
    hint = ", which on(…) names" if host.named else hint
    return f"devices: expected {needed}, found {host.device_count}{hint}"


def check_arrays(record: Record, host: Host) -> str | None:
    """Refuse what numpy arrays cannot do: several devices, typed PRNG keys."""
    if host.arrays == "jax":
        return None
    needs = 'needs load(…, arrays="jax")'
    if record.requires.devices > 1:
        return f"arrays: a function over {record.requires.devices} devices {needs}"
    avals = (*record.signature.leaves, *record.calling.outputs)
    is_keyed = any(aval.dtype.startswith("key<") for aval in avals)
    return f"arrays: a typed PRNG key {needs}, or jax.random.key_data" if is_keyed else None


def check_jaxlib(record: Record, host: Host) -> str | None:
    """Refuse another jaxlib than the one that compiled: XLA would crash, or worse, run it."""
    return other_jaxlib(record, host.jaxlib)


def other_jaxlib(record: Record, found: str) -> str | None:
    """Return the reason against a record if another jaxlib than this one compiled it."""
    needed = record.requires.jaxlib
    return None if needed in (None, found) else f"jaxlib: expected {needed}, found {found}"


def check_x64(record: Record, host: Host) -> str | None:
    if record.requires.x64 == host.x64:
        return None
    hint = "config: {jax_enable_x64: true} in the manifest compiles with it"
    if record.requires.x64:
        hint = "start the process with JAX_ENABLE_X64=1"
    return f"jax_enable_x64: expected {record.requires.x64}, found {host.x64} ({hint})"


def check_custom_calls(record: Record, host: Host) -> str | None:
    """Refuse the user's targets that nobody registered. The loader registers those of jax.

    Where XLA does not list what is registered, it says what is missing when it loads.
    """
    if host.custom_calls is None:
        return None
    missing = [target for target in record.requires.unprovided if target not in host.custom_calls]
    if not missing:
        return None
    names = ", ".join(missing)
    return (
        f"custom calls not registered: {names}; import the package that registers them first, or "
        "name it under imports: in the manifest"
    )


_CHECKS: tuple[Check, ...] = (check_portable, check_platform)
# Asked only about records for this platform; they mean nothing for others.
_DEVICES: tuple[Check, ...] = (check_arrays, check_devices, check_processes)
_SOFTWARE: tuple[Check, ...] = (check_jaxlib, check_x64, check_custom_calls)
_PORTABLE: tuple[Check, ...] = (check_platform, check_processes, check_devices, check_x64)
