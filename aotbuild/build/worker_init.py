"""What holds for a worker's whole life: how its process is started, and what it is told first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aotbuild.build.environment import Toolchain
from aotbuild.spec.isa import level_of

# Flags and settings of the calling shell would change what is compiled; the manifest decides.
_DROPPED_PREFIXES = ("JAX_", "XLA_", "TF_XLA_", "LIBTPU_", "PYTHONWARNINGS", "PYTHONOPTIMIZE")


@dataclass(frozen=True)
class Settings:
    """What a worker process is started with. Units with equal settings can share a process.

    `platform` is what it compiles for, `isa` the level of its CPU units. `devices` is how many CPU
    devices it has.
    """

    toolchain: Toolchain
    platform: str
    isa: str | None
    devices: int
    hoist: bool
    config: tuple[tuple[str, Any], ...]
    env: tuple[tuple[str, str], ...]

    @property
    def xla_flags(self) -> str:
        """The process-wide XLA flags; a cap given as a compiler option is ignored by XLA:CPU."""
        flags = [f"--xla_force_host_platform_device_count={self.devices}"]
        cap = level_of(self.isa).xla_max_isa if self.isa else None
        return " ".join([*flags, *([f"--xla_cpu_max_isa={cap}"] if cap else [])])

    def environment(self, inherited: dict[str, str]) -> dict[str, str]:
        """Return the environment of the worker, made from the parent's."""
        kept = {k: v for k, v in inherited.items() if not k.startswith(_DROPPED_PREFIXES)}
        return {
            **kept,
            "XLA_FLAGS": self.xla_flags,
            "JAX_PLATFORMS": "cpu",
            "JAX_USE_SIMPLIFIED_JAXPR_CONSTANTS": "1" if self.hoist else "0",
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONHASHSEED": "0",
            "PYTHONIOENCODING": "utf-8",
            "AOTBUILD_BUILDING": "1",
            "TF_CPP_MIN_LOG_LEVEL": "2",
            **dict(self.env),
        }


@dataclass(frozen=True)
class WorkerInit:
    """The first line to a worker; paths are absolute.

    `blobs` is the folder for what it makes, `store` that of compiled bytes, if there is one. `keep`
    names the stages to keep, `secret_paths` the folders of this machine that no byte may name.
    `provenance` is what each record begins with, `config` the settings of jax. With `explain`, it
    traces and compiles nothing.
    """

    blobs: Path
    store: Path | None = None
    keep: tuple[str, ...] = ()
    secret_paths: tuple[str, ...] = ()
    provenance: Mapping[str, str] = field(default_factory=dict)
    config: tuple[tuple[str, Any], ...] = ()
    explain: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form; the inverse of `from_json`."""
        return {
            "blobs": str(self.blobs),
            "store": None if self.store is None else str(self.store),
            "keep": list(self.keep),
            "secret_paths": list(self.secret_paths),
            "provenance": dict(self.provenance),
            "config": [list(option) for option in self.config],
            "explain": self.explain,
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> WorkerInit:
        """Read what `to_json` wrote."""
        return cls(
            blobs=Path(data["blobs"]),
            store=None if data["store"] is None else Path(data["store"]),
            keep=tuple(data["keep"]),
            secret_paths=tuple(data["secret_paths"]),
            provenance=data["provenance"],
            config=tuple((name, value) for name, value in data["config"]),
            explain=data["explain"],
        )
