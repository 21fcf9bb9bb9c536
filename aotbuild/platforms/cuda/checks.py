"""Whether a GPU and its driver have what an executable uses."""

from __future__ import annotations

import re

from aotbuild.format.record import Record
from aotbuild.platforms.base import Checks, Host, check_plugin, or_none

_VERSION = r"[0-9]{1,9}(\.[0-9]{1,9}){0,3}"


def check_capability(record: Record, host: Host) -> str | None:
    """The compute capability decides, and not the model of the GPU."""
    needed, found = record.requires.capability, host.fact("capability")
    if needed is not None and needed == found:
        return None
    expected = needed or "one, which the record does not name"
    kinds = or_none(host.device_kinds)
    return f"compute capability: expected {expected}, found {found or 'none'} ({kinds})"


def check_cuda(record: Record, host: Host) -> str | None:
    return _too_old("cuda", record.requires.cuda, host.fact("cuda"))


def check_driver(record: Record, host: Host) -> str | None:
    """A driver serves no newer CUDA than its own."""
    return _too_old("cuda driver", record.requires.cuda, host.fact("driver"))


def check_cudnn(record: Record, host: Host) -> str | None:
    return _too_old("cudnn", record.requires.cudnn, host.fact("cudnn"))


def better_kind(record: Record, host: Host) -> str | None:
    kinds = record.requires.device_kinds
    if not kinds or set(kinds) & set(host.device_kinds):
        return None
    return f"made for {' or '.join(kinds)}, this is {or_none(host.device_kinds)}"


def _too_old(what: str, needed: str | None, found: str | None) -> str | None:
    if needed is None:
        return None
    least = _version(needed)
    if least is None:
        return f"{what}: {needed} is no version that this aotbuild can compare"
    if found is None:
        return f"{what}: expected {needed} or newer, found none"
    known = _version(found)
    if known is None or known < least:
        return f"{what}: expected {needed} or newer, found {found}"
    return None


def _version(text: str) -> tuple[int, ...] | None:
    """Return a version without its trailing zeros: 13, 13.0 and 13.0.0 are one."""
    if not re.fullmatch(_VERSION, text):
        return None
    return tuple(int(part) for part in re.sub(r"(\.0+)+$", "", text).split("."))


class CudaChecks(Checks):
    """See `Checks`."""

    required = (check_capability, check_plugin, check_cuda, check_driver, check_cudnn)
    better = (better_kind,)


PLATFORM = CudaChecks()
