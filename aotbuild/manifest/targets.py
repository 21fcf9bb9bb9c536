"""Targets and toolchains: from the model to values, and no two the same."""

from __future__ import annotations

from packaging.version import Version

from aotbuild.manifest.cuda_targets import read_cuda
from aotbuild.manifest.nodes import Node, walk
from aotbuild.manifest.problems import Problems, dotted
from aotbuild.manifest.schema_model import ManifestModel
from aotbuild.manifest.schema_targets import TargetMap
from aotbuild.manifest.tpu_targets import read_tpu
from aotbuild.manifest.types import (
    CpuTarget,
    CudaTarget,
    PortableTarget,
    Target,
    ToolchainRequest,
    TpuTarget,
)
from aotbuild.spec.words import quote


def read_targets(model: ManifestModel, root: Node, problems: Problems) -> tuple[Target, ...]:
    """Return the targets; report what two of them, or one of them twice, would build."""
    items = enumerate(model.targets)
    targets = tuple(_target(item, index, root, problems) for index, item in items)
    seen: dict[str, int] = {}
    for index, target in enumerate(targets):
        for part in _parts(target):
            if part in seen:
                where = "in this one" if seen[part] == index else f"in targets.{seen[part]}"
                message = f"duplicate target {quote(part)}, already {where}"
                _report(root, problems, ("targets", index), message)
            seen.setdefault(part, index)
        if not _parts(target) and not isinstance(target, CudaTarget):
            message = "this target names nothing to build for; expected at least one entry"
            _report(root, problems, ("targets", index), message)
    return targets


def read_toolchains(
    model: ManifestModel, root: Node, problems: Problems
) -> tuple[ToolchainRequest, ...]:
    """Return the toolchains; report duplicates."""
    found = tuple(
        ToolchainRequest(item.jax, item.python, tuple(item.packages)) for item in model.toolchains
    )
    seen: dict[Version, int] = {}
    for index, toolchain in enumerate(found):
        # Records of one jaxlib and two Pythons could not be told apart where they are loaded.
        first = seen.setdefault(Version(toolchain.jax), index)
        if first != index:
            message = f"duplicate toolchain: jax {toolchain.jax} is already in toolchains.{first}"
            _report(root, problems, ("toolchains", index), message)
    return found


def _target(item: TargetMap, index: int, root: Node, problems: Problems) -> Target:
    if item.cuda:
        return read_cuda(item.cuda, index, root, problems)
    if item.tpu:
        return read_tpu(item.tpu, index, root, problems)
    if item.portable:
        return PortableTarget(tuple(item.portable.platforms))
    return CpuTarget(tuple(item.cpu.isa), item.cpu.devices) if item.cpu else CpuTarget()


def _parts(target: Target) -> tuple[str, ...]:
    """Return a name for each single thing that a target builds for."""
    if isinstance(target, CpuTarget):
        return tuple(f"cpu {isa}{_devices(target.devices)}" for isa in target.isa)
    if isinstance(target, CudaTarget):
        counts = f"{_devices(target.devices)}{_processes(target.processes)}"
        return tuple(f"cuda {gpu.name}{counts}" for gpu in target.gpus)
    if isinstance(target, TpuTarget):
        counts = f"{_processes(target.processes)}{_slices(target.slices)}"
        return tuple(f"tpu {topology}{counts}" for topology in target.topologies)
    return tuple(f"portable {platform}" for platform in target.platforms)


def _devices(count: int | None) -> str:
    return f", devices {str(count)[:20]}" if count is not None else ""


def _processes(count: int | None) -> str:
    return f", processes {count}" if count not in (None, 1) else ""


def _slices(count: int) -> str:
    return f", slices {count}" if count != 1 else ""


def _report(root: Node, problems: Problems, steps: tuple[str, int], message: str) -> None:
    problems.add(walk(root, steps).mark, dotted(steps), message)
