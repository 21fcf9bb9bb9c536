"""Refusals as a trace: what is refused for one reason is said once, the verdicts stay whole."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from aotbuild.runtime.host import Host
from aotbuild.runtime.select import Verdict

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
