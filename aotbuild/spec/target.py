"""Targets: where an executable runs, as a value with one spelling."""

from __future__ import annotations

from aotbuild.frozen import dataclass
from aotbuild.spec.isa import level_of

PLATFORMS = ("cpu", "cuda", "rocm", "tpu")


@dataclass(frozen=True)
class Target:
    """A platform, what of it, and how many devices, in how many processes: `cpu:x86-64-v3:1`.

    `detail` is the ISA level for `cpu`, the name of the GPU's preset for `cuda`, the topology for
    `tpu`, and the platforms in sorted order for `portable`. More than one process is written
    `tpu:v5e:4x4:16@4`: 16 devices, of which each of 4 processes has its share.
    """

    platform: str
    detail: str
    devices: int = 1
    processes: int = 1

    def __str__(self) -> str:
        processes = f"@{self.processes}" if self.processes != 1 else ""
        return f"{self.platform}:{self.detail}:{self.devices}{processes}"

    @classmethod
    def parse(cls, text: str) -> Target:
        """Read what `str` writes; ValueError says what is wrong."""
        platform, _, rest = text.partition(":")
        detail, _, counts = rest.rpartition(":")
        devices, at, processes = counts.partition("@")
        numbers = [devices, processes] if at else [devices]
        if not _is_detail(detail) or not all(map(_is_count, numbers)):
            msg = f"{text!r} is not a target; expected platform:detail:devices"
            raise ValueError(msg)
        target = cls(platform, detail, *map(int, numbers))
        _check(target)
        if str(target) != text:
            msg = f"{text!r} is not how this target is written; expected {str(target)!r}"
            raise ValueError(msg)
        return target

    @property
    def is_portable(self) -> bool:
        """Whether this is StableHLO, compiled where it runs, rather than an executable."""
        return self.platform == "portable"

    @property
    def platforms(self) -> tuple[str, ...]:
        """The platforms it can run on."""
        return tuple(self.detail.split(",")) if self.is_portable else (self.platform,)


def _is_detail(text: str) -> bool:
    """Whether this is 1 to 200 characters of printable ASCII without spaces."""
    return text.isascii() and text.isprintable() and " " not in text and 0 < len(text) <= 200


def _is_count(text: str) -> bool:
    """Whether this is a number from 1 to 999,999 as it is written."""
    return text.isascii() and text.isdigit() and text[0] != "0" and len(text) <= 6


def _check(target: Target) -> None:
    if target.devices % target.processes:
        msg = f"{target}: {target.processes} processes cannot share {target.devices} devices"
        raise ValueError(msg)
    if target.platform == "cpu":
        level_of(target.detail)
    elif target.is_portable:
        unknown = [name for name in target.platforms if name not in PLATFORMS]
        if unknown or list(target.platforms) != sorted(set(target.platforms)):
            msg = f"{target}: expected platforms of {', '.join(PLATFORMS)}, sorted and unique"
            raise ValueError(msg)
    elif target.platform not in PLATFORMS:
        msg = f"{target}: unknown platform {target.platform!r}"
        raise ValueError(msg)
