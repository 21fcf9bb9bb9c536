"""Compiling for CUDA GPUs, absent or here: devices, options, requirements, the tools of CUDA."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import jax
from jax.experimental import topologies

from aotbuild.errors import TraceRefused
from aotbuild.format.canonical import sha256_hex
from aotbuild.format.target import Target
from aotbuild.platforms.building import Attempt, Compiler, Hardware
from aotbuild.platforms.cuda.executables import Choices, NotReadable, choices, readable, records
from aotbuild.platforms.cuda.host import versions
from aotbuild.platforms.cuda.presets import (
    TARGET_CONFIG,
    is_here,
    target_config_text,
    tuning_to,
)
from aotbuild.platforms.cuda.toolkit import (
    PLUGIN,
    compiler_versions,
    link_tools,
    runtime_versions,
)
from aotbuild.platforms.cuda.tuning_results import Fitting, TuningResults

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
# A user's option with one of these in its name decides how matmuls are compiled.
_OF_MATMULS = ("triton", "gemm", "autotun", "cublas")
_TUNE = "run aotbuild tune on the GPU, and name its file under tuning: of the target"
# What Pallas says where a kernel looks at the GPU that it is made for (jax 0.12.0.1).
_NEEDS_GPU = ("specify an abstract GPU device", "Unsupported GPU device kind")


class CudaCompiler(Compiler):
    """See `Compiler`."""

    def devices(self, target: Target, hardware: Hardware, _: Any) -> Sequence[Any]:
        """Return this machine's GPUs, or the devices of a topology made from their description."""
        link_tools(system=is_here(hardware))
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
        _check_convolutions(target, found)
        is_tuned = tuned in ("by this build", "all")
        notes = [note, *([] if is_tuned else _untuned_notes(target, found, options))]
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
            "plugin": [PLUGIN, compiler_versions()[PLUGIN]],
            **_libraries(hardware, hlo),
        }

    def provenance(self, hardware: Hardware) -> dict[str, Any]:
        """Return the versions of the tools, and what their choices were tuned with."""
        fitting = _fitting(hardware)
        tuning = sha256_hex(fitting.text.encode()) if fitting else "none"
        return {
            "compilers": compiler_versions(),
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
    note = f"{tuned} instructions have a tuning result{example}: {_TUNE}."
    return compiled, tuned, note


def _check_convolutions(target: Target, found: Choices) -> None:
    """Refuse convolutions without an algorithm: cuDNN refuses those on the GPU."""
    if names := found.convolutions_without_algorithm:
        others = f" and {len(names) - 1} more" if len(names) > 1 else ""
        msg = (
            f"{target}: a convolution's algorithm can only be chosen on the GPU, and it has no "
            f"tuning result: {names[0]}{others}\nChoose it there: {_TUNE}; or build on the GPU, "
            "with gpu: host. XLA's own kernels need no tuning, and are far slower: "
            "compiler_options: {xla_gpu_experimental_enable_conv_fusion: true}."
        )
        raise TraceRefused(msg)


def _untuned_notes(target: Target, found: Choices, options: Mapping[str, Any]) -> Iterator[str]:
    if names := found.triton_matmuls:
        what = f"{len(names)} Triton matmuls with tiles that nobody measured, such as {names[0]}"
        theirs = [name for name in options if any(part in name for part in _OF_MATMULS)]
        if not theirs:
            msg = f"{target}: XLA chose {what}; they may be slow, or wrong: {_TUNE}, or report this"
            raise TraceRefused(msg)
        yield f"compiler_options ({', '.join(theirs)}) bring {what}; they may be slow, or wrong."
    if names := found.large_sorts:
        yield (
            f"{names[0]} is sorted by XLA's own kernels, which take about three times as long as "
            "CUB's; only a build on the GPU (gpu: host) has those."
        )


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
    versions = dict(runtime_versions())
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
