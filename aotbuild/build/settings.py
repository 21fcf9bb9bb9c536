"""The settings of a worker process: its environment variables and XLA flags."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from aotbuild.format.encodings import UTF8, encodings
from aotbuild.format.target import HOST
from aotbuild.platforms.building import Hardware, Process, description, descriptions
from aotbuild.toolchains.toolchain import Toolchain

# Flags and settings of the calling shell would change what is compiled; the manifest decides.
_DROPPED_PREFIXES = (
    *("JAX_", "XLA_", "TF_XLA_"),
    # Whatever else code sees in sys.flags, and similar.
    *("PYTHONASYNCIODEBUG", "PYTHONDEBUG", "PYTHONDEVMODE", "PYTHONINSPECT"),
    *("PYTHONINTMAXSTRDIGITS", "PYTHONNODEBUGRANGES", "PYTHONOPTIMIZE", "PYTHONTRACEMALLOC"),
    *("PYTHONVERBOSE", "PYTHONWARNDEFAULTENCODING", "PYTHONWARNINGS"),
    *("PYTHON_CONTEXT_AWARE_WARNINGS", "PYTHON_GIL", "PYTHON_LAZY_IMPORTS"),
    *("PYTHON_THREAD_INHERIT_CONTEXT",),
    *(prefix for known in descriptions() for prefix in known.device_prefixes),
    *(prefix for known in descriptions() for prefix in known.option_prefixes),
)


def is_forwarded(name: str) -> bool:
    """Return whether a worker inherits a variable of the build's environment."""
    return not name.startswith(_DROPPED_PREFIXES)


@dataclass(frozen=True)
class Settings:
    """What a worker process is started with. Units with equal settings can share a process.

    `platform` is what it compiles for, `cap` what the whole process is capped at, if anything.
    `devices` is how many host devices it has. `hardware` is what all of its jobs compile for, where
    the platform has a process for each.
    """

    toolchain: Toolchain
    platform: str
    cap: str | None
    devices: int
    hoist: bool
    config: tuple[tuple[str, Any], ...]
    env: tuple[tuple[str, str], ...]
    hardware: Hardware | None = None

    @property
    def process(self) -> Process:
        """How the platform wants the process to be run."""
        return description(self.platform).process

    @property
    def xla_flags(self) -> str:
        """The process-wide XLA flags."""
        flags = [f"--xla_force_host_platform_device_count={self.devices}"]
        cap = description(self.platform).cap_flags(self.cap) if self.cap else ()
        return " ".join([*flags, *cap])

    def environment(self, inherited: dict[str, str]) -> dict[str, str]:
        """Return the environment of the worker, made from the parent's."""
        kept = {k: v for k, v in inherited.items() if is_forwarded(k)}
        return {
            **kept,
            "XLA_FLAGS": self.xla_flags,
            "JAX_PLATFORMS": HOST,
            "JAX_USE_SIMPLIFIED_JAXPR_CONSTANTS": "1" if self.hoist else "0",
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONHASHSEED": "0",
            # Paths have one form for both: the locale's, or that of UTF-8. Where the locale's is
            # UTF-8, too, code sees no difference between machines.
            "PYTHONUTF8": str(int(encodings()[0] == UTF8)),
            "PYTHONIOENCODING": "utf-8",
            "AOTBUILD_BUILDING": "1",
            "TF_CPP_MIN_LOG_LEVEL": "2",
            **dict(pair for known in descriptions() for pair in known.worker_variables),
            **dict(self.process.variables),
            **dict(self.env),
            **(description(self.platform).variables(self.hardware) if self.hardware else {}),
        }
