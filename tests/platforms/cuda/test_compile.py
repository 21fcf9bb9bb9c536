"""Executables for GPUs that are not here, compiled by the real plugin in a toolchain."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.toolchains import build_with, cross_environment

from aotbuild.build.pack import Package
from aotbuild.errors import BuildError
from aotbuild.format.record import CustomCall, Record
from aotbuild.platforms.cuda.executables import readable
from aotbuild.platforms.cuda.presets import preset_files
from aotbuild.toolchains.toolchain import Environment

pytestmark = pytest.mark.wheel

MODEL = """\
import jax, jax.numpy as jnp
def attend(x, y):
    return jax.nn.softmax(x @ y)
def spread(x, y):
    return jax.nn.softmax(x @ y, axis=0)
def values(x):
    return jnp.linalg.svd(x, compute_uv=False)
def same(x):
    return x
def cudnn(q):
    return jax.nn.dot_product_attention(q, q, q, implementation="cudnn")
"""
KERNELS = """\
import jax, jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton
def _tanh(x, out):
    out[...] = jnp.tanh(x[...]) + 1
def _call(x, params):
    return pl.pallas_call(_tanh, jax.ShapeDtypeStruct(x.shape, x.dtype), compiler_params=params)(x)
def usual(x):
    return _call(x, None)
def chosen(x):
    return _call(x, triton.CompilerParams())
"""
ATTEND = "attend: {call: 'proj.model:attend', args: [x: 'bf16[256,512]', y: 'bf16[512,256]']}"


@pytest.fixture(scope="module")
def environment() -> Environment:
    return cross_environment("cuda")


def build(folder: Path, environment: Environment, targets: str, *functions: str) -> Package:
    return build_with(environment, folder, targets, *functions, model=MODEL, kernels=KERNELS)


def data(package: Package, record: Record) -> bytes:
    return (package.folder / record.blob.path).read_bytes()


@pytest.mark.any_jax
def test_every_preset(tmp_path: Path, environment: Environment) -> None:
    targets = f"[cuda: {{gpu: [{', '.join(preset_files())}]}}]"
    package = build(tmp_path, environment, targets, ATTEND)
    assert [record.target.detail for record in package.records] == list(preset_files())
    for record in package.records:
        requires = record.requires
        code = (requires.capability or "").replace(".", "").encode()
        assert b"-arch sm_" + code in readable(data(package, record)), record.target
        assert requires.plugin == ("jax-cuda13-pjrt", environment.toolchains[0].jax)
        assert (requires.cuda, requires.cudnn) == ("13.0.0", None)
        assert record.provenance["tuning"] == "none"
        assert record.provenance["choices"] == {"tuned": "none", "library_matmuls": 1}
        assert record.provenance["compilers"]["nvidia-cuda-nvcc"]


def test_several_gpus_and_processes(tmp_path: Path, environment: Environment) -> None:
    function = (
        "spread: {call: 'proj.model:spread', args: [x: 'bf16[256,512]', y: 'bf16[512,256]'], "
        "mesh: {data: 8}, in_shardings: {x: [data, null]}, out_shardings: [null, data]}"
    )
    targets = "[cuda: {gpu: h200}, cuda: {gpu: h100-sxm, devices: 8, processes: 2}]"
    package = build(tmp_path, environment, targets, function)
    found = [(str(r.target), r.requires.devices, r.requires.processes) for r in package.records]
    assert found == [("cuda:h200:8", 8, 1), ("cuda:h100-sxm:8@2", 8, 2)]
    for record in package.records:
        assert record.calling.mesh == (("data", 8),)
        assert b"all-" in readable(data(package, record)).lower()


VALUES = "values: {call: 'proj.model:values', args: [x: 'f32[64,64]']}"
SAME = "same: {call: 'proj.model:same', args: [x: 'f32[4]']}"


def pallas(name: str) -> str:
    return f"{name}: {{call: 'proj.kernels:{name}', args: [x: 'f32[64,64]']}}"


@pytest.fixture(scope="module")
def package(environment: Environment, tmp_path_factory: pytest.TempPathFactory) -> Package:
    """Two GPUs, and what takes libraries and kernels of others than XLA."""
    folder, targets = tmp_path_factory.mktemp("several"), "[cuda: {gpu: [a100-40, l4]}]"
    return build(folder, environment, targets, VALUES, SAME, pallas("chosen"), ATTEND)


def test_custom_calls_and_cudnn(package: Package) -> None:
    found = {r.function: r for r in package.records if r.target.detail == "a100-40"}
    values, same = (found[name] for name in ("values", "same"))
    assert values.requires.custom_calls == (CustomCall("cusolver_gesvdj_ffi", "jax"),)
    assert values.requires.cudnn is None
    assert same.requires.capability == "8.0"


def test_same_bytes_without_paths(
    package: Package, tmp_path: Path, environment: Environment
) -> None:
    second = build(tmp_path / "two", environment, "[cuda: {gpu: l4}]", ATTEND, VALUES)
    first = {(r.function, r.target): r.blob for r in package.records}
    for record in second.records:
        assert record.blob == first[record.function, record.target]
    interpreter = environment.toolchains[0].interpreter
    assert interpreter is not None
    home = str(interpreter.parent.parent).encode()
    for record in second.records:
        text = readable(data(second, record))
        assert b"./cuda_sdk_lib" in text
        assert home not in text
        assert str(tmp_path).encode() not in text


class TestPallas:
    def test_kernels(self, tmp_path: Path, environment: Environment) -> None:
        functions = (pallas("usual"), pallas("chosen"))
        package = build(tmp_path, environment, "[cuda: {gpu: [h200, b200]}]", *functions)
        assert len(package.records) == 4
        for record in package.records:
            capability = (record.requires.capability or "").replace(".", "")
            assert f"sm_{capability}".encode() in readable(data(package, record))
            assert {call.provider for call in record.requires.custom_calls} <= {"jax", "xla"}

    def test_mosaic_for_older_gpus(self, tmp_path: Path, environment: Environment) -> None:
        """Where Mosaic GPU is what jax takes by default, the error says what to take instead."""
        try:
            build(tmp_path, environment, "[cuda: {gpu: a100-40}]", pallas("usual"))
        except BuildError as err:
            (failure,) = err.failures
            assert "Mosaic GPU compiler" in failure.message
            assert "triton.CompilerParams()" in failure.message


class TestRefused:
    def test_attention_of_cudnn(self, tmp_path: Path, environment: Environment) -> None:
        entry = "cudnn: {call: 'proj.model:cudnn', args: [q: 'bf16[2,256,4,64]']}"
        with pytest.raises(BuildError) as caught:
            build(tmp_path, environment, "[cuda: {gpu: h200}]", entry)
        (failure,) = caught.value.failures
        assert "cuDNN not found" in failure.message
        assert "add nvidia-cudnn-cu13 to the project" in failure.message

    def test_unknown_capability(self, tmp_path: Path, environment: Environment) -> None:
        text = preset_files()["b200"].read_text(encoding="utf-8").replace("10.0a", "99.0a")
        (tmp_path / "next.yaml").write_text(text, encoding="utf-8")
        with pytest.raises(BuildError) as caught:
            build(tmp_path, environment, "[cuda: {gpu: ./next.yaml}]", ATTEND)
        (failure,) = caught.value.failures
        assert "does not know" in failure.message
