"""Executables for other hosts: found from known facts before a process is started for them."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import metadata

from aotbuild.format.record import Record
from aotbuild.platforms.base import Host, checks, machine
from aotbuild.runtime.compatibility import check_jaxlib, check_platform
from aotbuild.verify.outcome import GOLDEN, LOAD, Outcome, Status


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
    subject, status = str(record), Status.NOT_CHECKED
    return Outcome(LOAD, subject, status, reasons), Outcome(GOLDEN, subject, status, reasons)
