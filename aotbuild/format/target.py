"""Targets: where an executable runs, as a value with one spelling."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

# The platform that every process of jax has: Python runs on it, and functions are traced on it.
HOST = "cpu"
PORTABLE = "portable"
# The condition under which a wheel with executables and portable forms requires one exact jaxlib:
# executables run on Linux alone. See `build.wheel_metadata`.
ON_LINUX = 'sys_platform == "linux"'
# Of one call. The largest pod of TPUs has 9,216 chips, with two devices each.
MAX_DEVICES = 65_536
_checks: list[Callable[[Target], None]] = []


def check_targets_with(check: Callable[[Target], None]) -> None:
    """Add a check, which raises ValueError, of every target that is parsed.

    `aotbuild.platforms.base` adds what the platforms know: this module knows no platform.
    """
    _checks.append(check)


@dataclass(frozen=True)
class Target:
    """A platform, what of it, and how many devices, in how many processes: `cpu:x86-64-v3:1`.

    `detail` is in the platform's own words, such as an ISA level; for `portable` it is the sorted
    platforms. More than one process is written `tpu:v5e:4x4:16@4`: 16 devices, of which each of 4
    processes has its share.
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
        is_word = detail.isascii() and detail.isprintable() and " " not in detail
        if not is_word or not 0 < len(detail) <= 200 or not all(map(is_count, numbers)):
            msg = f"{text!r} is not a target; expected platform:detail:devices"
            raise ValueError(msg)
        target = cls(platform, detail, *map(int, numbers))
        if target.devices % target.processes:
            msg = f"{target}: {target.processes} processes cannot share {target.devices} devices"
            raise ValueError(msg)
        for check in _checks:
            check(target)
        if str(target) != text:
            msg = f"{text!r} is not how this target is written; expected {str(target)!r}"
            raise ValueError(msg)
        return target

    @property
    def is_portable(self) -> bool:
        """Whether this is StableHLO, compiled where it runs, rather than an executable."""
        return self.platform == PORTABLE

    @property
    def platforms(self) -> tuple[str, ...]:
        """The platforms it can run on."""
        return tuple(self.detail.split(",")) if self.is_portable else (self.platform,)


def is_count(text: str) -> bool:
    """Whether this is a number from 1 to 999,999 as it is written."""
    return text.isascii() and text.isdigit() and text[0] != "0" and len(text) <= 6
