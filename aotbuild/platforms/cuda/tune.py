"""Tuning on this machine's GPUs: XLA measures its choices; the results are read and joined."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from aotbuild.platforms.building import Hardware, LocalDevices, Request, Tuner
from aotbuild.platforms.cuda.describe import CudaOptions, GpuFiles
from aotbuild.platforms.cuda.driver import open_driver
from aotbuild.platforms.cuda.hardware import TUNING_TO
from aotbuild.platforms.cuda.presets import GpuPreset, preset_text
from aotbuild.platforms.cuda.tuning_results import TuningResults, merge

# The detail of this machine's GPU in a target that is never packaged.
LOCAL_GPU = "this-machine"
# Variables that a worker here needs; one that compiles for absent GPUs must not have them.
_KEPT_VARIABLES = ("CUDA_VISIBLE_DEVICES",)


def request_for(gpu: GpuPreset) -> Request:
    """Return a request for one GPU, independent of presets."""
    return Request("cuda", CudaOptions.model_construct(gpu=[gpu.name]), GpuFiles((gpu,)))


class CudaTuner(Tuner):
    """See `Tuner`."""

    def devices(self) -> LocalDevices:
        driver = open_driver()
        gpu = driver.describe(0, LOCAL_GPU)
        return LocalDevices(request_for(gpu), driver.device_count, gpu.device_kind)

    def install(self, jax: str) -> str:
        return f"jax[cuda13]=={jax}"

    def variables(self, inherited: Mapping[str, str]) -> Mapping[str, str]:
        kept = {name: inherited[name] for name in _KEPT_VARIABLES if name in inherited}
        return {"JAX_PLATFORMS": "cuda,cpu", **kept}

    def into(self, hardware: Hardware, file: Path) -> Hardware:
        return replace(hardware, description=((TUNING_TO, str(file)),))

    def read(self, files: list[Path], kind: str) -> tuple[str, int]:
        # A worker that had nothing to choose wrote no results.
        texts = [text for file in files if "results" in (text := file.read_text(encoding="utf-8"))]
        found = merge(map(TuningResults.parse, texts), kind)
        return str(found), len(found.entries)

    def describe(self, number: int) -> tuple[dict[str, Any], str]:
        gpu = open_driver().describe(number, f"gpu-{number}")
        facts = {"device_kind": gpu.device_kind, "capability": gpu.capability, **dict(gpu.facts)}
        source = "What the driver of the GPU says (aotbuild doctor --describe-gpu)."
        return facts, preset_text(gpu, source)


PLATFORM = CudaTuner()
