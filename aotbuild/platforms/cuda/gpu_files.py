"""The files that a cuda target names: presets and tuning results; or this machine's GPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from aotbuild.errors import ManifestError, NoGpu
from aotbuild.format.words import quote
from aotbuild.platforms.building import TargetItem
from aotbuild.platforms.cuda.driver import open_driver
from aotbuild.platforms.cuda.presets import (
    GpuPreset,
    is_file_name,
    named_by_kind,
    preset_files,
    read_preset,
    shipped_preset,
)
from aotbuild.platforms.cuda.tuning_results import TuningResults, read_text

# Instead of a preset: the GPU of the machine that builds.
HERE = "host"
_REMEDY = "aotbuild tune writes one on a machine with the GPU"


@dataclass(frozen=True)
class GpuFiles:
    """The presets of a request's GPUs, and the text of their tuning results.

    `here` is the preset of this machine's GPU, if it is one of them.
    """

    presets: tuple[GpuPreset, ...]
    tuning: str | None = None
    here: GpuPreset | None = None


def read_files(gpus: Sequence[str], tuning: str | None, item: TargetItem) -> GpuFiles:
    """Read presets and tuning results; report what is wrong with them."""
    found = [_preset(name, number, item) for number, name in enumerate(gpus)]
    presets = tuple(preset for preset in found if preset)
    here = found[list(gpus).index(HERE)] if HERE in gpus else None
    return GpuFiles(presets, None if tuning is None else _tuning(tuning, presets, item), here)


def _preset(name: str, number: int, item: TargetItem) -> GpuPreset | None:
    """Return the preset of a GPU; None if it has problems, which are reported."""
    if name == HERE:
        return _preset_here(number, item)
    if not is_file_name(name):
        return shipped_preset(name)
    file = item.folder / name
    if not file.exists():
        message = f"no such file: {quote(name)}, looked for beside the manifest"
        item.report(message, "gpu", number)
        return None
    if file.stem in preset_files():
        message = f"{quote(name)} has the name of a preset, {file.stem}; rename the file"
        item.report(message, "gpu", number)
        return None
    try:
        return read_preset(file, item.read_model)
    except ManifestError as err:
        item.extend(err.problems)
        return None


def _preset_here(number: int, item: TargetItem) -> GpuPreset | None:
    """Return this machine's GPU, by the name of the shipped preset of its kind if there is one."""
    try:
        gpu = open_driver().describe(0, HERE)
    except NoGpu as err:
        message = f"no GPU can be used here: {err.reason}"
        item.report(f"{message}; build on the machine that has it, or name a preset", "gpu", number)
        return None
    return named_by_kind(gpu)


def _tuning(name: str, presets: Sequence[GpuPreset], item: TargetItem) -> str | None:
    """Return the text of a file of tuning results; None if it has a problem, which is reported."""
    try:
        text = read_text(item.folder / name)
        results = TuningResults.parse(text)
    except OSError as err:
        item.report(_unreadable(name, err), "tuning")
        return None
    except ValueError as err:
        message = f"{quote(name)} is no file of tuning results: {err}; {_REMEDY}"
        item.report(message, "tuning")
        return None
    measured, kinds = results.device_kinds, {preset.device_kind for preset in presets}
    if measured and kinds and not kinds & set(measured):
        message = f"{quote(name)} has results of {', '.join(measured)}, but this target is "
        item.report(f"{message}{', '.join(sorted(kinds))}; tune on that GPU", "tuning")
    return text


def _unreadable(name: str, err: OSError) -> str:
    reason = f"cannot be read, looked for beside the manifest: {err.strerror}"
    return f"{quote(name)} {reason}; {_REMEDY}"
