"""Compiling for CUDA GPUs, absent or here: devices, options, requirements, the tools of CUDA."""

from __future__ import annotations

import importlib
import importlib.util
import re
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import jax
from jax.experimental import topologies

from aotbuild.errors import TraceRefused
from aotbuild.format.canonical import sha256_hex
from aotbuild.format.target import Target
from aotbuild.platforms.building import Attempt, Compiler, Hardware
from aotbuild.platforms.cuda.describe import COMPILERS, CUDA_ROOT
from aotbuild.platforms.cuda.executables import (
    TUNE,
    NotReadable,
    check_convolutions,
    choices,
    readable,
    records,
    untuned_notes,
)
from aotbuild.platforms.cuda.host import versions
from aotbuild.platforms.cuda.presets import TARGET_CONFIG, is_here, target_config_text, tuning_to
from aotbuild.platforms.cuda.tuning_results import Fitting, TuningResults

PLUGIN = "jax-cuda13-pjrt"
# The files that XLA reads, and the distribution of each.
_FILES = {"bin/ptxas": "nvidia-cuda-nvcc", "nvvm/libdevice/libdevice.10.bc": "nvidia-nvvm"}
# Where CUDA is installed on a machine with a GPU, if not with jax.
_SYSTEM_CUDA = "/usr/local/cuda"
# The files are in the worker's own folder: XLA writes their names into the executable.
_RESULTS = "./autotune_results.txt"
_ARCHITECTURE = re.compile(rb"-arch (sm_[0-9]+[af]?)\b")
# cuDNN's own calls, and those of jax's recurrent networks.
_CUDNN = ("__cudnn$", "cudnn_rnn")
# Options of XLA. Without the GPU, XLA takes the first backend that can compile an instruction:
# Triton, with its smallest tiles, for matmuls. Without Triton for them it takes cuBLASLt, which
# chooses its kernel when it runs.
_TRITON_MATMULS = "xla_gpu_enable_triton_gemm"
_RESULTS_FROM = "xla_gpu_load_autotune_results_from"
_RESULTS_TO = "xla_gpu_dump_autotune_results_to"
_ALL_IN_RESULTS = "xla_gpu_require_complete_aot_autotune_results"
# What XLA says where an instruction has no result; the counts since jax 0.11.
_NO_RESULT = "No cached config found for HLO instr"
_NO_RESULT_COUNTS = re.compile(r"Failed to get configs for: (\d+) out of (\d+) instructions")
_NO_RESULT_FOR = re.compile(rf"{_NO_RESULT}: (%\S+ = \S+)")
# What Pallas says where a kernel looks at the GPU that it is made for (jax 0.12.0.1).
_NEEDS_GPU = ("specify an abstract GPU device", "Unsupported GPU device kind")


class CudaCompiler(Compiler):
    """See `Compiler`."""

    def devices(self, target: Target, hardware: Hardware, _: Any) -> Sequence[Any]:
        """Return this machine's GPUs, or the devices of a topology made from their description."""
        _link_tools(system=is_here(hardware))
        _import_pallas_rules()
        return _own_devices(target) if is_here(hardware) else _devices(target, hardware)

    def compile(
        self, attempt: Attempt, target: Target, hardware: Hardware, options: Mapping[str, Any]
    ) -> tuple[Any, str, dict[str, Any]]:
        """Compile with what was measured, else with the kernels of libraries.

        XLA's own choice for a matmul or a convolution that it could not measure is refused.
        """
        if is_here(hardware):
            file = tuning_to(hardware)
            compiled = attempt({**({_RESULTS_TO: file} if file else {}), **options})
            tuned, note = "by this build", None
        else:
            compiled, tuned, note = _compile_for_absent(attempt, hardware, options)
        hlo = compiled.as_text() or ""
        found = choices(hlo)
        check_convolutions(target, found)
        is_tuned = tuned in ("by this build", "all")
        notes = [note, *([] if is_tuned else untuned_notes(target, found, options))]
        text = " ".join(filter(None, notes))
        made = {
            "tuned": tuned,
            **found.to_json(),
            **({"note": f"{target}: {text}"} if text else {}),
        }
        return compiled, hlo, made

    def requirements(
        self, target: Target, hardware: Hardware, data: bytes, hlo: str
    ) -> dict[str, Any]:
        """Return the compute capability, the plugin, and the lowest versions of its libraries."""
        _check_architecture(target, hardware, _records(target, data))
        return {
            "device_kinds": [hardware.kind],
            "capability": hardware.capability,
            "plugin": [PLUGIN, _compiler_versions()[PLUGIN]],
            **_libraries(hardware, hlo),
        }

    def provenance(self, hardware: Hardware) -> dict[str, Any]:
        """Return the versions of the tools, and what their choices were tuned with."""
        fitting = _fitting(hardware)
        tuning = sha256_hex(fitting.text.encode()) if fitting else "none"
        return {
            "compilers": _compiler_versions(),
            "tuning": "measured on this GPU" if is_here(hardware) else tuning,
        }

    def is_stored(self, hardware: Hardware) -> bool:
        # Tuning needs the results of this run, so the store keeps none.
        return tuning_to(hardware) is None

    def asks_for_device(self, error: Exception) -> bool:
        return any(sign in str(error) for sign in _NEEDS_GPU)

    def searchable(self, data: bytes) -> bytes:
        return readable(data)


def _compile_for_absent(
    attempt: Attempt, hardware: Hardware, options: Mapping[str, Any]
) -> tuple[Any, str, str | None]:
    """Compile for a GPU that is not here; return which instructions are tuned, and a note.

    XLA reads the file of results when it first compiles in a process, and never again: a process
    has one.
    """
    fitting = _fitting(hardware)
    if fitting is None or not fitting.count:
        none = "" if fitting is None else f"jax {jax.__version__} can use no result of tuning:"
        return attempt({_TRITON_MATMULS: False, **options}), "none", none
    Path(_RESULTS).write_text(fitting.text, encoding="utf-8")
    results = {_RESULTS_FROM: _RESULTS}
    try:
        return attempt({**results, _ALL_IN_RESULTS: True, **options}), "all", None
    except TraceRefused as err:
        if _NO_RESULT not in str(err):
            raise
        counts, first = _NO_RESULT_COUNTS.search(str(err)), _NO_RESULT_FOR.search(str(err))
    # Results of Triton matmuls are not found now: cuBLASLt is as fast, where it was measured.
    compiled = attempt({**results, _TRITON_MATMULS: False, **options})
    tuned = f"{int(counts[2]) - int(counts[1])} of {counts[2]}" if counts else "not all"
    example = f"; {first[1]} has none" if first else ""
    note = f"{tuned} instructions have a tuning result{example}: {TUNE}."
    return compiled, tuned, note


@cache
def _fitting(hardware: Hardware) -> Fitting | None:
    """Return the tuning results that this jax can use; None without a file of them."""
    if hardware.tuning is None:
        return None
    return TuningResults.parse(hardware.tuning).fitting(jax.__version__, hardware.kind)


def _libraries(hardware: Hardware, hlo: str) -> dict[str, str]:
    """Return the lowest versions of CUDA and, if the optimized HLO calls it, of cuDNN."""
    versions = _versions(hardware)
    called = ("cuda", *(["cudnn"] if any(name in hlo for name in _CUDNN) else []))
    return {name: versions[name] for name in called}


def _versions(hardware: Hardware) -> dict[str, str]:
    """Return the versions that XLA compiles for: the plugin's lowest, or what was measured with.

    XLA uses a result of cuDNN only for exactly the version that it was measured with.
    """
    versions = dict(_runtime_versions())
    fitting = _fitting(hardware)
    return {**versions, "cudnn": fitting.cudnn} if fitting and fitting.cudnn else versions


def _own_devices(target: Target) -> Sequence[Any]:
    """Return the GPUs of this machine."""
    try:
        return list(jax.devices("cuda")[: target.devices])
    except RuntimeError as err:
        # jax only logs which library it misses.
        found = ", ".join(f"{name} {version or 'none'}" for name, version in versions())
        msg = (
            f"jax {jax.__version__} can use no GPU here: {err}; found {found}\n"
            f"Install jax[cuda13]=={jax.__version__} beside the build, and look with nvidia-smi."
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
        with suppress(ImportError):
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
            f"compiler of {PLUGIN} {_compiler_versions().get(PLUGIN)} does not know capability "
            f"{hardware.capability}; use a newer jax, or correct the preset"
        )
        raise TraceRefused(msg)


# --- the tools of CUDA -------------------------------------------------------------------------


def _link_tools(*, system: bool = False) -> None:
    """Link the tools into the current folder; raises TraceRefused if one is missing.

    With `system`, for the GPU of this machine, the machine's own CUDA will do.
    """
    link = Path(CUDA_ROOT)
    if not link.is_symlink():
        folder = _toolkit() or (Path(_SYSTEM_CUDA) if system else None)
        if folder is not None:
            # The two processes of a job work in one folder, and either may be the first.
            with suppress(FileExistsError):
                link.symlink_to(folder, target_is_directory=True)
    missing = sorted({owner for file, owner in _FILES.items() if not (link / file).exists()})
    if missing:
        others = f"nor a whole {_SYSTEM_CUDA}" if system else "aotbuild never uses the system's"
        msg = (
            f"the CUDA compiler is not complete: {', '.join(missing)} is not installed beside jax, "
            f"or not whole; {others}. Install it into the build environment"
        )
        raise TraceRefused(msg)


def _compiler_versions() -> dict[str, str]:
    """Return the versions of the distributions that compile, by name."""
    found = {}
    for name in COMPILERS:
        with suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found


def _runtime_versions() -> Mapping[str, str]:
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


PLATFORM = CudaCompiler()
