"""Checks that a TPU has the kind, and its slice the size, that an executable needs."""

from __future__ import annotations

import re

from aotbuild.format.record import Record
from aotbuild.platforms.base import Checks, Host, check_kind, check_plugin

_TOPOLOGY = r"[1-9][0-9]{0,5}(x[1-9][0-9]{0,5}){0,2}"


def check_topology(record: Record, host: Host) -> str | None:
    needed, found = record.requires.topology, host.fact("topology")
    if needed is None:
        return None
    sizes = _sizes(needed)
    if sizes is None:
        return f"topology: {needed} is none that this aotbuild knows"
    if sizes == _sizes(found or ""):
        return None
    return f"topology: expected {needed}, found {_shown(found, needed)}"


def better_slice(record: Record, host: Host) -> str | None:
    """Code for one TPU runs in any slice of its kind, but was compiled for that of its target."""
    _, _, wanted = record.target.detail.partition(":")
    found = host.fact("topology")
    if _sizes(wanted) in (None, _sizes(found or "")):
        return None
    return f"made for a slice of {wanted}, this is one of {_shown(found, wanted)}"


def _sizes(topology: str) -> tuple[int, ...] | None:
    """Return the three sizes of a slice: `2x4` is `2x4x1`."""
    if not re.fullmatch(_TOPOLOGY, topology):
        return None
    sizes = tuple(map(int, topology.split("x")))
    return (*sizes, *[1] * (3 - len(sizes)))


def _shown(topology: str | None, like: str) -> str:
    """Return a host's slice with as many sizes as another text has: `2x4x1` as `2x4`."""
    if topology is None or like.count("x") == 2 or topology.count("x") != 2:
        return topology or "none"
    return topology.removesuffix("x1")


class TpuChecks(Checks):
    """See `Checks`."""

    required = (check_kind, check_topology, check_plugin)
    better = (better_slice,)


PLATFORM = TpuChecks()
