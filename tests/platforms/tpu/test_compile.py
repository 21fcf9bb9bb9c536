"""Executables for TPUs that are not here, compiled by the real libtpu in a toolchain."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

import pytest
from support.toolchains import build_with, cross_environment

from aotbuild.build.pack import Package
from aotbuild.errors import BuildError
from aotbuild.format.record import CustomCall
from aotbuild.platforms.tpu.describe import GENERATIONS
from aotbuild.toolchains.toolchain import Environment

pytestmark = pytest.mark.wheel

MODEL = """\
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, PartitionSpec as P
def mlp(x, w):
    return jnp.sum(jnp.tanh(x @ w), axis=0)
def own(x):
    mesh = Mesh(np.array(jax.devices()), ("x",))
    return jax.shard_map(lambda part: jax.lax.psum(part, "x"), mesh=mesh, in_specs=P("x"),
                         out_specs=P())(x)
def outer(x):
    return jnp.sort(jnp.outer(x, x), axis=1)
"""
KERNELS = """\
import jax, jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
def _scaled_tanh(factor, block, out, scratch):
    scratch[...] = block[...] * factor[0]
    out[...] = jnp.tanh(scratch[...])
def blocks(x):
    return pl.BlockSpec((8, x.shape[1]), lambda i: (i, 0), memory_space=pltpu.VMEM)
def scaled(factor, x):
    return pl.pallas_call(
        _scaled_tanh,
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        grid=(x.shape[0] // 8,),
        in_specs=[pl.BlockSpec(memory_space=pltpu.SMEM), blocks(x)],
        out_specs=blocks(x),
        scratch_shapes=[pltpu.VMEM((8, x.shape[1]), x.dtype)],
    )(factor, x)
def asks(factor, x):
    return scaled(factor, x) * pltpu.get_tpu_info().num_lanes
"""
ARGS = "args: [x: 'f32[64,128]', w: 'f32[128,128]']"
ONE = f"one: {{call: 'proj.model:mlp', {ARGS}}}"


def spread(name: str, data: int, model: int) -> str:
    return (
        f"{name}: {{call: 'proj.model:mlp', {ARGS}, mesh: {{data: {data}, model: {model}}}, "
        "in_shardings: {x: [data, null], w: [null, model]}, out_shardings: [model]}"
    )


def kernel(name: str) -> str:
    return f"{name}: {{call: 'proj.kernels:{name}', args: [factor: 'f32[1]', x: 'f32[64,128]']}}"


def tpu(*topologies: str, more: str = "") -> str:
    return f"tpu: {{topology: {list(topologies)}{more}}}"


@pytest.fixture(scope="module")
def environment() -> Environment:
    return cross_environment("tpu")


def build(folder: Path, environment: Environment, targets: str, *functions: str) -> Package:
    targets = f"[{targets}]"
    return build_with(environment, folder, targets, *functions, model=MODEL, kernels=KERNELS)


# Each needs a process of its own, which imports jax and starts libtpu: it gets all functions.
TOPOLOGIES = ("v4:2x2x1", "v5e:1x1", "v5e:2x2", "v5p:2x2x1", "v6e:2x4", "tpu7x:2x2x1")


@pytest.fixture(scope="module")
def package(environment: Environment, tmp_path_factory: pytest.TempPathFactory) -> Package:
    functions = (ONE, spread("four", 2, 2), spread("eight", 2, 4), kernel("scaled"), kernel("asks"))
    return build(tmp_path_factory.mktemp("all"), environment, tpu(*TOPOLOGIES), *functions)


def test_generations(package: Package, environment: Environment) -> None:
    records = [r for r in package.records if r.function in ("one", "four", "eight")]
    found = {f"{r.function} {r.target}": r for r in records}
    assert sorted(found) == sorted(
        [
            *(f"one tpu:{topology}:1" for topology in TOPOLOGIES),
            *(f"four tpu:{topology}:4" for topology in ("v4:2x2x1", "v5e:2x2", "v5p:2x2x1")),
            *(f"eight tpu:{topology}:8" for topology in ("v6e:2x4", "tpu7x:2x2x1")),
        ]
    )
    libtpu = dict(environment.toolchains[0].plugins)["libtpu"]
    for record in records:
        requires, (name, _, sizes) = record.requires, record.target.detail.partition(":")
        assert requires.platforms == ("tpu",)
        assert requires.device_kinds == (GENERATIONS[name].kind,)
        assert requires.plugin == ("libtpu", libtpu)
        assert requires.topology == (sizes if record.target.devices > 1 else None)
        assert record.analysis["flops"] > 1e5
        assert record.analysis["device_bytes"] == GENERATIONS[name].memory
        assert record.analysis["peak_bytes"] > 0
        assert record.golden is not None
    assert found["four tpu:v5e:2x2:4"].calling.out_specs == (("model",),)


@pytest.mark.any_jax
def test_processes(tmp_path: Path, environment: Environment) -> None:
    targets = f"{tpu('v5e:4x4')}, {tpu('v6e:2x4', more=', processes: 2')}"
    functions = (spread("sixteen", 4, 4), spread("eight", 2, 4))
    package = build(tmp_path, environment, targets, *functions)
    found = [(str(r.target), r.requires.processes, r.requires.topology) for r in package.records]
    assert found == [("tpu:v5e:4x4:16@4", 4, "4x4"), ("tpu:v6e:2x4:8@2", 2, "2x4")]


@pytest.mark.any_jax
def test_same_bytes_side_by_side_without_paths(
    tmp_path: Path, environment: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Several processes at once: libtpu's lock would fail all but one of them."""
    monkeypatch.setenv("AOTBUILD_JOBS", "3")
    logs = Path(tempfile.gettempdir()) / "tpu_logs"
    before = sorted(logs.glob("*"))
    many = build(tmp_path / "1", environment, tpu("v5e:2x2", "v6e:2x2", "v4:2x2x1"), ONE)
    few = build(tmp_path / "2", environment, tpu("v6e:2x2"), spread("four", 2, 2), ONE)
    assert {str(r.target): r.blob for r in many.records}["tpu:v6e:2x2:1"] in [
        record.blob for record in few.records
    ]
    home = environment.toolchains[0].interpreter
    assert home is not None
    for record in many.records:
        data = (many.folder / record.blob.path).read_bytes()
        assert str(tmp_path).encode() not in data
        assert str(home.parent.parent).encode() not in data
    assert sorted(logs.glob("*")) == before


@pytest.mark.any_jax
def test_too_large(tmp_path: Path, environment: Environment) -> None:
    function = (
        "outer: {call: 'proj.model:outer', args: [x: 'f32[262144]'], verify: {golden: never}}"
    )
    topologies = ("v4:2x2x1", "v5e:2x2", "v5p:2x2x1", "v6e:2x2", "tpu7x:2x2x1")
    with pytest.raises(BuildError) as caught:
        build(tmp_path, environment, tpu(*topologies), function)
    failures = {failure.unit: failure for failure in caught.value.failures}
    assert len(failures) == len(topologies)
    for topology in topologies:
        failure = failures[f"outer() for tpu:{topology}:1"]
        assert failure.stage == "compile"
        assert "(512.00G)" in failure.message
        # libtpu 0.0.42.1 and 0.0.50.1 differ by 0.01; the table has the lower number.
        (stated,) = re.findall(r"available HBM \(([0-9.]+)G\)", failure.message)
        memory = GENERATIONS[topology.partition(":")[0]].memory / (1 << 30)
        assert 0 <= float(stated) - memory < 0.02


class TestPallas:
    def test_kernels(self, package: Package) -> None:
        records = [r for r in package.records if r.function in ("scaled", "asks")]
        assert len(records) == 2 * len(TOPOLOGIES)
        for record in records:
            assert record.requires.custom_calls == (CustomCall("tpu_custom_call", "xla"),)
            assert record.golden is None
            assert "does not run on a CPU" in record.provenance["golden"]
        notes = [note for note in package.notes if note.startswith("scaled()")]
        (note,) = set(notes)
        assert note.startswith("scaled(): no golden outputs: the function does not run on a CPU")
