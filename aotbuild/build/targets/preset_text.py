"""A preset of a GPU as the text of a YAML file, in the form of those in `configs/targets`."""

from __future__ import annotations

from aotbuild.build.manifest.gpu_presets import FACTS, GpuModel
from aotbuild.build.manifest.types import GpuPreset


def preset_text(gpu: GpuPreset, source: str) -> str:
    """Return the YAML of a preset; `source` says in its first line where the facts are from."""
    facts = dict(gpu.facts)
    rows = [f"{name}: {facts[name]}  # {_meaning(name)}" for name in FACTS]
    head = [
        f"# {source}",
        f"device_kind: {gpu.device_kind}",
        f'capability: "{gpu.capability}"',
    ]
    return "\n".join([*head, *rows]) + "\n"


def _meaning(name: str) -> str:
    return str(GpuModel.model_fields[name].description)
