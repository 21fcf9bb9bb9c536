"""CUDA targets: their GPUs' presets and tuning results, from the files that the manifest names."""

from __future__ import annotations

from pathlib import Path

from aotbuild.errors import ManifestError
from aotbuild.manifest.nodes import Node, child, walk
from aotbuild.manifest.problems import Problems, dotted
from aotbuild.manifest.reader import MAX_BYTES
from aotbuild.manifest.schema_targets import CudaOptions
from aotbuild.manifest.types import CudaTarget, GpuPreset
from aotbuild.platforms.cuda.preset_files import is_file_name, preset_files
from aotbuild.platforms.cuda.presets import read_preset, shipped_preset
from aotbuild.platforms.cuda.tuning_results import TuningResults
from aotbuild.spec.words import quote

_MOST_RESULTS = 64 * MAX_BYTES
_REMEDY = "aotbuild tune writes one on a machine with the GPU"


def read_cuda(options: CudaOptions, index: int, root: Node, problems: Problems) -> CudaTarget:
    """Return the target at an index; report what is wrong with the files that it names."""
    place = _Place(("targets", index, "cuda"), root, problems)
    found = (place.gpu(name, number) for number, name in enumerate(options.gpu))
    gpus = tuple(gpu for gpu in found if gpu)
    if options.devices is not None and options.devices % options.processes:
        message = f"{options.processes} processes cannot share {str(options.devices)[:20]} devices"
        place.report(message, "processes")
    text = None if options.autotune is None else place.tuning(options.autotune, gpus)
    return CudaTarget(gpus, options.devices, options.processes, text)


class _Place:
    """A target in the manifest, whose folder paths are relative to."""

    def __init__(self, steps: tuple[str | int, ...], root: Node, problems: Problems) -> None:
        self._steps, self._root, self._problems = steps, root, problems
        self._folder = Path(problems.file).parent

    def report(self, message: str, *more: str | int) -> None:
        steps = (*self._steps, *more)
        self._problems.add(walk(self._root, steps).mark, dotted(steps), message)

    def gpu(self, name: str, number: int) -> GpuPreset | None:
        """Return what is known of a GPU; None with its file's problems reported."""
        if not is_file_name(name):
            return shipped_preset(name)
        steps = ("gpu", number) if child(walk(self._root, (*self._steps, "gpu")), 0) else ("gpu",)
        file = self._folder / name
        try:
            file.stat()
        except (OSError, ValueError):
            self.report(f"no such file: {quote(name)}, looked for beside the manifest", *steps)
            return None
        if file.stem in preset_files():
            message = f"{quote(name)} has the name of a preset, {file.stem}; rename the file"
            self.report(message, *steps)
            return None
        try:
            return read_preset(file)
        except ManifestError as err:
            self._problems.extend(err.problems)
            return None

    def tuning(self, name: str, gpus: tuple[GpuPreset, ...]) -> str | None:
        """Return the text of a file of tuning results; None with its problem reported."""
        file = self._folder / name
        try:
            text = _read_text(file)
            results = TuningResults.parse(text)
        except OSError as err:
            reason = f"cannot be read, looked for beside the manifest: {err.strerror}"
            self.report(f"{quote(name)} {reason}; {_REMEDY}", "autotune")
            return None
        except ValueError as err:
            self.report(f"{quote(name)} is no file of tuning results: {err}; {_REMEDY}", "autotune")
            return None
        kind, kinds = results.device_kind, [gpu.device_kind for gpu in gpus]
        if kind is not None and kinds and kind not in kinds:
            message = f"{quote(name)} has results of {kind}, but this target is {', '.join(kinds)}"
            self.report(f"{message}; tune on that GPU", "autotune")
        return text


def _read_text(file: Path) -> str:
    with file.open("rb") as stream:
        data = stream.read(_MOST_RESULTS + 1)
    if len(data) > _MOST_RESULTS:
        msg = f"it is larger than {_MOST_RESULTS} bytes"
        raise ValueError(msg)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as err:
        msg = "it is no UTF-8 text"
        raise ValueError(msg) from err
