"""Compile for the CPU: the process's own devices, capped at one level by its flags."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jax

from aotbuild.build.targets.hardware import Hardware
from aotbuild.spec.target import Target


class CpuPlatform:
    """See `Platform`."""

    def devices(self, target: Target, _: Hardware) -> Sequence[Any]:
        """Return this process's CPU devices, as many as the target has."""
        return list(jax.devices("cpu")[: target.devices])

    def compiler_options(self, _: Target, __: Hardware) -> Mapping[str, Any]:
        """Return none: XLA:CPU ignores them where they cap the instruction set."""
        return {}

    def requirements(self, target: Target, _: Hardware, __: bytes) -> dict[str, Any]:
        """Return the level."""
        return {"isa": target.detail}
