"""Executables for other hosts: found from known facts before a process is started for them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from importlib import metadata

from aotbuild.format.record import Record
from aotbuild.platforms.base import Host, checks, machine
from aotbuild.runtime.select import check_jaxlib, check_platform
from aotbuild.verify.outcome import GOLDEN, LOAD, Outcome, Status

# What counts for a record with several reasons against it: a host of another platform comes first.
_ORDER = ("platform", "jaxlib", "isa", "features", "device kind", "compute capability")


@dataclass(frozen=True)
class KnownHost:
    """What is known of this host without loading anything.

    `platforms` are those that have devices, None where nobody could look.
    """

    platforms: tuple[str, ...] | None
    jaxlib: str | None

    def host(self, platform: str) -> Host:
        """Return the facts as checks read them; those that are not known are empty."""
        known = machine()
        return Host(
            platform=platform,
            device_count=0,
            device_kinds=(),
            process_count=1,
            architecture=known.architecture,
            features=known.features,
            jaxlib=self.jaxlib or "",
            x64=False,
        )


def known_host(platforms: tuple[str, ...] | None) -> KnownHost:
    """Return this host; `platforms` are those that a child process found devices of."""
    try:
        return KnownHost(platforms, metadata.version("jaxlib"))
    except metadata.PackageNotFoundError:
        return KnownHost(platforms, None)


def reasons_against(record: Record, here: KnownHost) -> tuple[str, ...]:
    """Return why a record cannot be loaded here, as far as that is known; as the runtime says it.

    What is portable can be read anywhere.
    """
    if record.target.is_portable:
        return ()
    if here.platforms is not None and not set(here.platforms) & set(record.requires.platforms):
        reason = check_platform(record, here.host(next(iter(here.platforms), "none")))
        return (reason,) if reason else ()
    if here.jaxlib is None:
        return ()
    host = here.host(record.target.platform)
    asked = (*checks(host.platform).of_machine, check_jaxlib)
    return tuple(reason for check in asked if (reason := check(record, host)))


def not_loaded(record: Record, reasons: tuple[str, ...]) -> tuple[Outcome, Outcome]:
    """Return the outcomes of both checks of a record that there are reasons against."""
    load = Outcome(LOAD, str(record), Status.NOT_CHECKED, reasons, needed(record, reasons))
    return load, Outcome(GOLDEN, str(record), Status.NOT_CHECKED, reasons)


def needed(record: Record, reasons: Collection[str]) -> str:
    """Return in a few words what a host must have for a record that has reasons against it."""
    heads = [reason.partition(":")[0] for reason in reasons]
    first = next((head for head in _ORDER if head in heads), heads[0] if heads else "host")
    requires = record.requires
    level = " ".join([requires.isa or "", *requires.features]).strip()
    words = {
        "platform": " or ".join(requires.platforms),
        "jaxlib": f"jaxlib {requires.jaxlib}",
        "isa": level,
        "features": level,
        "device kind": " or ".join(requires.device_kinds),
        "compute capability": f"compute capability {requires.capability}",
    }
    return words.get(first) or f"other {first}"


def counted(outcomes: Iterable[Outcome]) -> dict[str, int]:
    """Return how many executables were not loaded for want of each thing, the most first."""
    return dict(Counter(outcome.needs for outcome in outcomes if outcome.needs).most_common())
