"""Targets and toolchains: from the model to values, and no two the same."""

from __future__ import annotations

from aotbuild.build.manifest.nodes import Node, walk
from aotbuild.build.manifest.problems import Problems, dotted, quote
from aotbuild.build.manifest.schema_model import ManifestModel, TargetMap
from aotbuild.build.manifest.types import (
    CpuTarget,
    CudaTarget,
    PortableTarget,
    Target,
    ToolchainRequest,
    TpuTarget,
)


def read_targets(model: ManifestModel, root: Node, problems: Problems) -> tuple[Target, ...]:
    """Return the targets; report what two of them, or one of them twice, would build."""
    targets = tuple(_target(item) for item in model.targets)
    seen: dict[str, int] = {}
    for index, target in enumerate(targets):
        for part in _parts(target):
            if part in seen:
                where = "in this one" if seen[part] == index else f"in targets.{seen[part]}"
                message = f"duplicate target {quote(part)}, already {where}"
                _report(root, problems, ("targets", index), message)
            seen.setdefault(part, index)
        if not _parts(target):
            message = "this target names nothing to build for; expected at least one entry"
            _report(root, problems, ("targets", index), message)
    return targets


def read_toolchains(
    model: ManifestModel, root: Node, problems: Problems
) -> tuple[ToolchainRequest, ...]:
    """Return the toolchains; report duplicates."""
    found = tuple(ToolchainRequest(item.jax, item.python) for item in model.toolchains)
    for index, toolchain in enumerate(found):
        if toolchain in found[:index]:
            message = f"duplicate toolchain, already in toolchains.{found.index(toolchain)}"
            _report(root, problems, ("toolchains", index), message)
    return found


def _target(item: TargetMap) -> Target:
    if item.cuda:
        return CudaTarget(tuple(item.cuda.gpu), item.cuda.devices)
    if item.tpu:
        return TpuTarget(tuple(item.tpu.topology))
    if item.portable:
        return PortableTarget(tuple(item.portable.platforms))
    return CpuTarget(tuple(item.cpu.isa), item.cpu.devices) if item.cpu else CpuTarget()


def _parts(target: Target) -> tuple[str, ...]:
    """Return a name for each single thing that a target builds for."""
    if isinstance(target, CpuTarget):
        return tuple(f"cpu {isa}{_devices(target.devices)}" for isa in target.isa)
    if isinstance(target, CudaTarget):
        return tuple(f"cuda {gpu}{_devices(target.devices)}" for gpu in target.gpus)
    if isinstance(target, TpuTarget):
        return tuple(f"tpu {topology}" for topology in target.topologies)
    return tuple(f"portable {platform}" for platform in target.platforms)


def _devices(count: int | None) -> str:
    return f", devices {str(count)[:20]}" if count is not None else ""


def _report(root: Node, problems: Problems, steps: tuple[str, int], message: str) -> None:
    problems.add(walk(root, steps).mark, dotted(steps), message)
