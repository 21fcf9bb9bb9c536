"""The settings of a worker process: its environment variables and XLA flags."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from aotbuild.platforms.base import Hardware
from aotbuild.spec.isa import level_of
from aotbuild.toolchains.environment import Toolchain

# Flags and settings of the calling shell would change what is compiled; the manifest decides.
_DROPPED_PREFIXES = (
    "CUDA_",
    "JAX_",
    "XLA_",
    "TF_XLA_",
    "LIBTPU_",
    "TPU_",
    "PYTHONWARNINGS",
    "PYTHONOPTIMIZE",
)
# No TPU is looked for, in a cloud either; several processes compile side by side, which libtpu's
# lock file would prevent; nothing is logged, to stderr or below /tmp. Tried on libtpu 0.0.42.1 and
# 0.0.50.1.
_FOR_LIBTPU = {
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
    "TPU_ACCELERATOR_TYPE": "v5litepod-4",
    "TPU_LOAD_LIBRARY": "1",
    "TPU_LOG_DIR": "disabled",
    "TPU_MIN_LOG_LEVEL": "3",
    "TPU_SKIP_MDS_QUERY": "1",
    "TPU_STDERR_LOG_LEVEL": "3",
    "TPU_WORKER_HOSTNAMES": "localhost",
    "TPU_WORKER_ID": "0",
}
# Where a worker for GPUs has its compiler: XLA writes this path into the executable, so it is the
# same everywhere, relative to a folder of the worker's own. Where NVIDIA's packages are beside jax,
# executables of other platforms have a path as well; this is what stands there without them.
CUDA_ROOT = "./cuda_sdk_lib"


@dataclass(frozen=True)
class Settings:
    """What a worker process is started with. Units with equal settings can share a process.

    `platform` is what it compiles for, `isa` the level that its CPU is capped at, if it is.
    `devices` is how many CPU devices it has. `gpu` is what a process for GPUs compiles for: XLA
    reads results of tuning once in a process, and Pallas keeps to the first GPU that it meets.
    """

    toolchain: Toolchain
    platform: str
    isa: str | None
    devices: int
    hoist: bool
    config: tuple[tuple[str, Any], ...]
    env: tuple[tuple[str, str], ...]
    gpu: Hardware | None = None

    @property
    def has_own_folder(self) -> bool:
        """Whether the process is started in a folder that nobody else uses."""
        return self.platform == "cuda"

    @property
    def serves_one_job(self) -> bool:
        """Whether the process ends after a job: a second one would get other bytes from libtpu."""
        return self.platform == "tpu"

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
            "CUDA_ROOT": CUDA_ROOT,
            **(_FOR_LIBTPU if self.platform == "tpu" else {}),
            **dict(self.env),
        }
