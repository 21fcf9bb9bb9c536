"""Compiling for absent CUDA GPUs: topologies, requirements, and the tools of CUDA."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import jax
from jax.experimental import topologies

from aotbuild.errors import TraceRefused
from aotbuild.platforms.building import Compiler, Hardware
from aotbuild.platforms.cuda.bytes import NotReadable, readable, records
from aotbuild.platforms.cuda.describe import COMPILERS, CUDA_ROOT
from aotbuild.platforms.cuda.hardware import TARGET_CONFIG, target_config_text, tuning_to
from aotbuild.spec.canonical import sha256_hex
from aotbuild.spec.target import Target

PLUGIN = "jax-cuda13-pjrt"
# The files that XLA reads, and the distribution of each.
_FILES = {"bin/ptxas": "nvidia-cuda-nvcc", "nvvm/libdevice/libdevice.10.bc": "nvidia-nvvm"}


def link_tools() -> None:
    """Link the tools into the current folder; raises TraceRefused if one is missing."""
    link = Path(CUDA_ROOT)
    if not link.is_symlink():
        folder = _toolkit()
        if folder is not None:
            link.symlink_to(folder, target_is_directory=True)
    missing = sorted({owner for file, owner in _FILES.items() if not (link / file).exists()})
    if missing:
        msg = (
            f"the CUDA compiler is not complete: {', '.join(missing)} is not installed beside jax, "
            "or not whole; aotbuild never uses the system's. Install it into the build environment"
        )
        raise TraceRefused(msg)


def compiler_versions() -> dict[str, str]:
    """Return the versions of the distributions that compile, by name."""
    return dict(_installed())


def runtime_versions() -> Mapping[str, str]:
    """Return the lowest versions that can run the plugin's executables: those it was built with.

    `cuda` is the CUDA runtime's, which is also the driver's, and `cudnn` that of cuDNN.
    """
    try:
        versions: Any = importlib.import_module("jax_cuda13_plugin._versions")
    except ImportError as err:
        msg = f"jax-cuda13-plugin is not installed in the build environment, or not whole: {err}"
        raise TraceRefused(msg) from err
    # 13000 is 13.0.0: CUDA_VERSION is 1000 * major + 10 * minor.
    cuda = versions.cuda_runtime_build_version()
    # 91200 is 9.12.0: CUDNN_VERSION is 10000 * major + 100 * minor + patch.
    cudnn = versions.cudnn_build_version()
    return {
        "cuda": f"{cuda // 1000}.{cuda % 1000 // 10}.{cuda % 10}",
        "cudnn": f"{cudnn // 10000}.{cudnn // 100 % 100}.{cudnn % 100}",
    }


def _toolkit() -> Path | None:
    """Return the folder of NVIDIA's wheels for CUDA 13, if any of them is installed."""
    try:
        spec = importlib.util.find_spec("nvidia.cu13")
    except ModuleNotFoundError:
        return None
    places = spec.submodule_search_locations if spec else None
    return Path(next(iter(places))) if places else None


def _installed() -> Iterator[tuple[str, str]]:
    for name in COMPILERS:
        try:
            yield name, metadata.version(name)
        except metadata.PackageNotFoundError:
            continue


# The files are in the worker's own folder: XLA writes their names into the executable.
_RESULTS = "./autotune_results.txt"
_ARCHITECTURE = re.compile(rb"-arch (sm_[0-9]+[af]?)\b")
_TUNED_WITH = re.compile(r"DNN version: ([0-9]+[.][0-9]+[.][0-9]+)")
# cuDNN's own calls, and those of jax's recurrent networks.
_CUDNN = ("__cudnn$", "cudnn_rnn")
# What Pallas says where a kernel looks at the GPU that it is made for (jax 0.12.0.1).
_NEEDS_GPU = ("specify an abstract GPU device", "Unsupported GPU device kind")


class CudaCompiler(Compiler):
    """See `Compiler`."""

    def devices(self, target: Target, hardware: Hardware, _: Any) -> Sequence[Any]:
        """Return the devices of a topology made from the description of the GPU."""
        link_tools()
        _import_pallas_rules()
        if tuning_to(hardware):
            return _own_devices(target)
        return _devices(target, hardware)

    def compiler_options(self, _: Target, hardware: Hardware) -> Mapping[str, Any]:
        """Return where the results of tuning are, if there are any: then all must be of them.

        XLA reads the file when it first compiles in a process, and never again: a process has one.
        """
        file = tuning_to(hardware)
        if file is not None:
            return {"xla_gpu_dump_autotune_results_to": file}
        if hardware.autotune is None:
            return {}
        Path(_RESULTS).write_text(hardware.autotune, encoding="utf-8")
        return {
            "xla_gpu_load_autotune_results_from": _RESULTS,
            "xla_gpu_require_complete_aot_autotune_results": True,
        }

    def requirements(
        self, target: Target, hardware: Hardware, data: bytes, hlo: str
    ) -> dict[str, Any]:
        """Return the compute capability, the plugin, and the lowest versions of its libraries."""
        _check_architecture(target, hardware, _records(target, data))
        return {
            "device_kinds": [hardware.kind],
            "capability": hardware.capability,
            "plugin": [PLUGIN, compiler_versions()[PLUGIN]],
            **_libraries(hardware, hlo),
        }

    def provenance(self, hardware: Hardware) -> dict[str, Any]:
        """Return the versions of the tools, and what their choices were tuned with."""
        text = hardware.autotune
        tuned = "none" if text is None else sha256_hex(text.encode())
        return {"compilers": compiler_versions(), "autotune": tuned}

    def is_stored(self, hardware: Hardware) -> bool:
        # Tuning needs the results of this run, so the store keeps none.
        return tuning_to(hardware) is None

    def asks_for_device(self, error: Exception) -> bool:
        return any(sign in str(error) for sign in _NEEDS_GPU)

    def searchable(self, data: bytes) -> bytes:
        return readable(data)


def _libraries(hardware: Hardware, hlo: str) -> dict[str, str]:
    """Return the lowest versions of CUDA and, if the optimized HLO calls it, of cuDNN."""
    versions = _versions(hardware)
    called = ("cuda", *(["cudnn"] if any(name in hlo for name in _CUDNN) else []))
    return {name: versions[name] for name in called}


def _versions(hardware: Hardware) -> dict[str, str]:
    """Return the minimal versions that XLA compiles for.

    Results of tuning hold for one cuDNN: XLA looks them up by the GPU's facts, and its version.
    """
    versions = dict(runtime_versions())
    tuned_with = _TUNED_WITH.search(hardware.autotune or "")
    return {**versions, "cudnn": tuned_with[1]} if tuned_with else versions


def _own_devices(target: Target) -> Sequence[Any]:
    """Return the GPUs of this machine."""
    try:
        return list(jax.devices("cuda")[: target.devices])
    except RuntimeError as err:
        msg = (
            f"jax {jax.__version__} can use no GPU here: {err}\n"
            f"Tuning runs on it: install jax[cuda13]=={jax.__version__}, and look with nvidia-smi."
        )
        raise TraceRefused(msg) from err


@cache
def _devices(target: Target, hardware: Hardware) -> Sequence[Any]:
    """Return the same devices for the same target: those of two topologies are never equal."""
    text = target_config_text(dict(hardware.description)[TARGET_CONFIG], _versions(hardware))
    local = target.devices // target.processes
    try:
        topology = topologies.get_topology_desc(
            platform="cuda", topology=f"1x{target.processes}x{local}", target_config=text
        )
    except Exception as err:  # the plugin raises several types
        reason = str(err).partition("\n")[0]
        msg = (
            f"{target}: the CUDA plugin cannot describe this GPU: {reason}\n"
            f"Compare its preset with those in configs/targets of aotbuild, and install {PLUGIN} "
            f"{jax.__version__} into the build environment."
        )
        raise TraceRefused(msg) from err
    return list(topology.devices)


def _import_pallas_rules() -> None:
    """Register the lowering of Pallas for GPUs, which needs an import of its backend."""
    if "jax.experimental.pallas" not in sys.modules:
        return
    for name in ("triton", "mosaic_gpu"):
        # A missing module is reported when a kernel is lowered.
        with contextlib.suppress(ImportError):
            importlib.import_module(f"jax.experimental.pallas.{name}")


def _records(target: Target, data: bytes) -> bytes:
    try:
        return records(data)
    except NotReadable as err:
        msg = (
            f"{target}: the executable is in a form that this aotbuild does not know ({err}), so "
            "nobody can tell which GPU it is for; use a jax that this aotbuild was tried with"
        )
        raise TraceRefused(msg) from err


def _check_architecture(target: Target, hardware: Hardware, data: bytes) -> None:
    """Refuse code for another GPU: XLA silently falls back to the nearest known architecture."""
    wanted = f"sm_{(hardware.capability or '').replace('.', '')}"
    others = {found.decode() for found in _ARCHITECTURE.findall(data)} - {wanted}
    if others:
        msg = (
            f"{target}: compiled for {', '.join(sorted(others))}, expected {wanted}: the CUDA "
            f"compiler of {PLUGIN} {compiler_versions().get(PLUGIN)} does not know capability "
            f"{hardware.capability}; use a newer jax, or correct the preset"
        )
        raise TraceRefused(msg)


PLATFORM = CudaCompiler()
