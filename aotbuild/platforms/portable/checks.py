"""Checks of portable targets."""

from __future__ import annotations

from aotbuild.format.target import Target
from aotbuild.platforms.base import Checks


class PortableChecks(Checks):
    """See `Checks`."""

    lowered_for = ("cpu", "cuda", "rocm", "tpu")

    def check_target(self, target: Target) -> None:
        unknown = set(target.platforms) - set(self.lowered_for)
        if unknown or list(target.platforms) != sorted(set(target.platforms)):
            known = ", ".join(self.lowered_for)
            msg = f"{target}: expected platforms of {known}, sorted and unique"
            raise ValueError(msg)


PLATFORM = PortableChecks()
