"""Builds `_aot` folders for the runtime's tests straight with jax: functions and values go in.

There is no manifest, no trace of the worker's and no process. `tests/worker/test_records.py` builds
the same functions this way and the real one, and compares each field of the records.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import jax
import jaxlib
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from aotbuild.format.aval import Aval
from aotbuild.format.canonical import sha256_hex
from aotbuild.format.index import write_index
from aotbuild.format.outputs import describe_output
from aotbuild.format.record import Blob, Calling, Constant, CustomCall, Record, Requirements
from aotbuild.format.signature import Function, Signature, Static
from aotbuild.format.target import Target
from aotbuild.format.tree import Describer
from aotbuild.format.values import encode
from aotbuild.platforms.cpu import host as cpuinfo
from aotbuild.platforms.cpu.checks import best_level
from aotbuild.runtime import checked_blobs
from aotbuild.runtime.jax.private import aval_of
from aotbuild.worker.blobs import TENSOR_NAME, serialize
from aotbuild.worker.private import serialize_executable

ISA = best_level(cpuinfo.architecture(), cpuinfo.features()) or "x86-64-v2+avx"


@dataclasses.dataclass(frozen=True)
class Built:
    """One record, its function, and the bytes of its blobs."""

    function: Function
    record: Record
    blobs: Mapping[str, bytes]

    def replace(self, **changes: Any) -> Built:
        """Return it with other requirements, for a target that fits them."""
        record = self.record
        requires = dataclasses.replace(record.requires, **changes)
        mesh = (("data", requires.devices),) if "devices" in changes else record.calling.mesh
        changed = dataclasses.replace(
            record,
            requires=requires,
            target=_target_of(requires),
            calling=dataclasses.replace(record.calling, mesh=mesh),
        )
        return dataclasses.replace(self, record=changed)


def build(
    name: str,
    fn: Callable[..., Any],
    args: Mapping[str, Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    statics: Mapping[str, Any] | None = None,
    *,
    call: str = "nowhere:nothing",
    defaults: Mapping[str, Any] | None = None,
    positional: Iterable[str] | None = None,
    donate: Iterable[str] = (),
    mesh: Mapping[str, int] | None = None,
    in_specs: Mapping[str, tuple[Any, ...]] | None = None,
    out_spec: tuple[Any, ...] = (),
    constants: Mapping[str, Any] | None = None,
    keep_unused: bool = False,
) -> Built:
    """Compile `fn(*args, **kwargs, **statics)` for this host; `constants` are passed by name."""
    args, kwargs, statics = dict(args or {}), dict(kwargs or {}), dict(statics or {})
    constants = dict(constants or {})
    leaves, tree = jax.tree_util.tree_flatten((tuple(args.values()), kwargs))
    out_tree: list[Any] = []

    def flat(*values: Any) -> Any:
        consts, rest = values[: len(constants)], values[len(constants) :]
        a, k = jax.tree_util.tree_unflatten(tree, rest)
        out = fn(*a, **k, **statics, **dict(zip(constants, consts, strict=True)))
        flat_out, structure = jax.tree_util.tree_flatten(out)
        out_tree.append(structure)
        return flat_out

    avals = [aval_of(leaf) for leaf in leaves]
    const_avals = [aval_of(value) for value in constants.values()]
    owners = [name for name, value in args.items() for _ in jax.tree_util.tree_leaves(value)]
    owners += [n for n in sorted(kwargs) for _ in jax.tree_util.tree_leaves(kwargs[n])]
    donated = [index for index, owner in enumerate(owners) if owner in set(donate)]
    specs = [(in_specs or {}).get(owner, ()) for owner in owners]
    shardings: dict[str, Any] = {}
    if mesh:
        count = int(np.prod(list(mesh.values())))
        grid = np.array(jax.devices()[:count]).reshape(list(mesh.values()))
        real = Mesh(grid, tuple(mesh))
        # XLA chooses how constants lie, as it does for those that a build hoists.
        shardings["in_shardings"] = (
            *[None] * len(constants),
            *[NamedSharding(real, PartitionSpec(*spec)) for spec in specs],
        )
        shardings["out_shardings"] = NamedSharding(real, PartitionSpec(*out_spec))
    compiled = (
        jax.jit(
            flat,
            donate_argnums=tuple(len(constants) + index for index in donated),
            keep_unused=keep_unused,
            **shardings,
        )
        .lower(*map(_struct, [*const_avals, *avals]))
        .compile()
    )
    executable = compiled._executable
    data = serialize_executable(compiled)
    outputs = tuple(
        Aval(tuple(a.shape), str(a.dtype), bool(a.weak_type)) for a in executable.out_avals
    )
    blobs = {}
    kept_constants = []
    for value, aval in zip(constants.values(), const_avals, strict=True):
        blob, raw = constant_blob(value)
        blobs[blob.path] = raw
        kept_constants.append(Constant(aval, blob))
    blob = Blob("pjrt", sha256_hex(data), len(data))
    blobs[blob.path] = data
    in_tree = jax.tree_util.tree_structure((tuple(args.values()), kwargs))
    describer = Describer()
    described = describer.describe(in_tree)
    encoded = tuple(sorted((n, encode(v)) for n, v in statics.items()))
    devices = int(np.prod(list(mesh.values()))) if mesh else 1
    function = Function(
        name=name,
        call=call,
        positional=tuple(positional or args),
        dynamic=tuple(args),
        keywords=tuple(kwargs),
        statics=tuple(
            Static(n, encode(defaults[n])) if defaults and n in defaults else Static(n)
            for n in sorted(statics)
        ),
        donate=tuple(donate),
    )
    record = Record(
        function=name,
        signature=Signature(described, tuple(avals), encoded),
        target=Target("cpu", ISA, devices),
        blob=blob,
        requires=Requirements(
            platforms=("cpu",),
            devices=devices,
            isa=ISA,
            jaxlib=jaxlib.__version__,
            x64=bool(jax.config.jax_enable_x64),
            custom_calls=_custom_calls(compiled.as_text()),
        ),
        calling=Calling(
            name=name,
            constants=tuple(kept_constants),
            kept=tuple(sorted(executable._kept_var_idx)),
            donated=tuple(donated),
            in_specs=tuple(specs) if mesh else (),
            outputs=outputs,
            out_specs=(out_spec,) * len(outputs) if mesh else (),
            out_tree=describe_output(out_tree[-1], in_tree),
            mesh=tuple((mesh or {}).items()),
        ),
    )
    return Built(function, record, blobs)


def _target_of(requires: Requirements) -> Target:
    (platform,) = requires.platforms
    details = {"cpu": requires.isa or "", "cuda": "h100-sxm", "tpu": "v5e:1x1"}
    return Target(platform, details[platform], requires.devices, requires.processes)


def portable(built: Built, fn: Callable[..., Any], *shapes: Any, symbolic: bool = False) -> Built:
    """Return the StableHLO record of a function that takes and returns flat arrays."""
    from jax import export

    out: list[Any] = []

    def flat(*values: Any) -> Any:
        leaves, tree = jax.tree_util.tree_flatten(fn(*values))
        out.append(tree)
        return leaves

    shapes = shapes or tuple(_struct(aval) for aval in built.record.signature.leaves)
    exported = export.export(jax.jit(flat))(*shapes)
    data = bytes(exported.serialize())
    blob = Blob("stablehlo", sha256_hex(data), len(data))
    requires = Requirements(platforms=("cpu",), x64=bool(jax.config.jax_enable_x64))
    provenance = {"symbolic_leaves": [a.str_short() for a in exported.in_avals]} if symbolic else {}
    record = dataclasses.replace(
        built.record,
        target=Target("portable", "cpu", 1),
        blob=blob,
        requires=requires,
        provenance=provenance,
    )
    return Built(built.function, record, {blob.path: data})


def constant_blob(value: Any) -> tuple[Blob, bytes]:
    """Return a closed-over array as a safetensors blob."""
    data = serialize({TENSOR_NAME: value})
    return Blob("safetensors", sha256_hex(data), len(data)), data


def write(
    root: Path,
    built: Iterable[Built],
    *,
    package: str = "demo",
    fallback: str = "none",
    **more: Any,
) -> Path:
    """Write an `_aot` folder below `root` and return it; `more` goes into the header."""
    folder, built = root / "_aot", list(built)
    (folder / "blobs").mkdir(parents=True, exist_ok=True)
    for item in built:
        for path, data in item.blobs.items():
            (folder / path).write_bytes(data)
    functions = {item.function.name: item.function for item in built}.values()
    header = {"package": package, "fallback": fallback, **more}
    (folder / "index").write_bytes(write_index(header, functions, [item.record for item in built]))
    return folder


def with_out_tree(built: Built, tree: Any) -> Built:
    """Return it with another description of its outputs."""
    calling = dataclasses.replace(built.record.calling, out_tree=tree)
    record = dataclasses.replace(built.record, calling=calling)
    return dataclasses.replace(built, record=record)


def aligned(array: Any) -> Any:
    """Return a copy of a numpy array that XLA takes without copying it."""
    copy = checked_blobs.aligned(array.nbytes).view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def _struct(aval: Aval) -> Any:
    from aotbuild.runtime.jax.private import dtype_of

    return jax.ShapeDtypeStruct(aval.shape, dtype_of(aval), weak_type=aval.weak_type)


def _custom_calls(hlo: str) -> tuple[CustomCall, ...]:
    targets = sorted(set(re.findall(r'custom_call_target="(lapack_[a-z0-9_]+)"', hlo)))
    return tuple(CustomCall(target, "jax") for target in targets)
