"""Targets: where an executable runs, as a value with one spelling."""

from __future__ import annotations

from dataclasses import dataclass

from aotbuild.spec.isa import level_of

PLATFORMS = ("cpu", "cuda", "rocm", "tpu")


@dataclass(frozen=True)
class Target:
    """A platform, what of it, and how many devices: `cpu:x86-64-v3:1`, `portable:cpu,cuda,tpu:1`.

    `detail` is the ISA level for `cpu`, and the platforms in sorted order for `portable`.
    """

    platform: str
    detail: str
    devices: int = 1

    def __str__(self) -> str:
        return f"{self.platform}:{self.detail}:{self.devices}"

    @classmethod
    def parse(cls, text: str) -> Target:
        """Read what `str` writes; ValueError says what is wrong."""
        platform, detail, devices = (*text.split(":"), "", "")[:3]
        if text.count(":") != 2 or not devices.isdigit() or int(devices) < 1:
            msg = f"{text!r} is not a target; expected platform:detail:devices"
            raise ValueError(msg)
        target = cls(platform, detail, int(devices))
        _check(target)
        return target

    @property
    def is_portable(self) -> bool:
        """Whether this is StableHLO, compiled where it runs, rather than an executable."""
        return self.platform == "portable"

    @property
    def platforms(self) -> tuple[str, ...]:
        """The platforms it can run on."""
        return tuple(self.detail.split(",")) if self.is_portable else (self.platform,)


def _check(target: Target) -> None:
    if target.platform == "cpu":
        level_of(target.detail)
    elif target.is_portable:
        unknown = [name for name in target.platforms if name not in PLATFORMS]
        if unknown or list(target.platforms) != sorted(set(target.platforms)):
            msg = f"{target}: expected platforms of {', '.join(PLATFORMS)}, sorted and unique"
            raise ValueError(msg)
    elif target.platform not in PLATFORMS or not target.detail:
        msg = f"{target}: unknown platform {target.platform!r}"
        raise ValueError(msg)
