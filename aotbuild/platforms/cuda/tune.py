"""Tuning on this machine's GPUs: XLA measures its choices; the results are read and joined."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from aotbuild.platforms.building import Hardware, LocalDevices, Request, Tuner
from aotbuild.platforms.cuda.describe import CudaOptions
from aotbuild.platforms.cuda.driver import GpuPreset, open_driver
from aotbuild.platforms.cuda.presets import HERE, TUNING_TO, GpuFiles, named_by_kind, preset_text
from aotbuild.platforms.cuda.tuning_results import TuningResults, merge


def request_here(gpu: GpuPreset) -> Request:
    """Return a request for this machine's GPU."""
    files = GpuFiles((gpu,), here=gpu)
    return Request("cuda", CudaOptions.model_construct(gpu=[HERE]), files)


class CudaTuner(Tuner):
    """See `Tuner`."""

    def devices(self) -> LocalDevices:
        driver = open_driver()
        gpu = named_by_kind(driver.describe(0, HERE))
        return LocalDevices(request_here(gpu), driver.device_count, gpu.device_kind)

    def install(self, jax: str) -> str:
        return f"jax[cuda13]=={jax}"

    def into(self, hardware: Hardware, file: Path) -> Hardware:
        return replace(hardware, description=(*hardware.description, (TUNING_TO, str(file))))

    def read(self, file: Path, kind: str, jax: str) -> TuningResults:
        # XLA wrote no result, or not even a file, where it had nothing to choose.
        text = file.read_text(encoding="utf-8") if file.exists() else ""
        if "{" not in text:
            return TuningResults(())
        return TuningResults.parse(text).measured_on(kind, jax)

    def parse(self, text: str) -> TuningResults:
        return TuningResults.parse(text)

    def join(self, results: Iterable[TuningResults]) -> TuningResults:
        return merge(results)

    def describe(self, number: int) -> tuple[dict[str, Any], str]:
        gpu = open_driver().describe(number, f"gpu-{number}")
        facts = {"device_kind": gpu.device_kind, "capability": gpu.capability, **dict(gpu.facts)}
        source = "What the driver of the GPU says (aotbuild doctor --describe-gpu)."
        return facts, preset_text(gpu, source)


PLATFORM = CudaTuner()
