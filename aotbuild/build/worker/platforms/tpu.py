"""Compile for TPU slices that are not there, with libtpu."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from aotbuild.build.targets.hardware import Hardware
from aotbuild.errors import TraceRefused
from aotbuild.spec.target import Target


class TpuPlatform:
    """See `Platform`."""

    def devices(self, target: Target, hardware: Hardware) -> Sequence[Any]:
        """Return the devices of a topology of libtpu."""
        msg = f"{target}: not built yet"
        raise TraceRefused(msg)

    def compiler_options(self, target: Target, hardware: Hardware) -> Mapping[str, Any]:
        """Return none."""
        return {}

    def requirements(self, target: Target, hardware: Hardware, data: bytes) -> dict[str, Any]:
        """Return the device kind, the topology and libtpu's version."""
        return {"device_kinds": [hardware.kind]}
