"""What XLA chooses without the GPU never reaches a wheel; what was measured on one does."""

from __future__ import annotations

import re
from importlib import metadata
from pathlib import Path

import pytest
from packaging.version import Version
from support.cli import run
from support.projects import write_project
from support.toolchains import cross_environment

from aotbuild.build.pack import Package, build_package
from aotbuild.build.plan import make_plan
from aotbuild.build.project import find_sources
from aotbuild.errors import BuildError
from aotbuild.format.record import Record
from aotbuild.manifest import load_manifest
from aotbuild.platforms.cuda.executables import Choices, choices
from aotbuild.platforms.cuda.tuning_results import TuningResults, merge
from aotbuild.toolchains.toolchain import Environment

MEASURED = Path(__file__).parents[2] / "packages" / "tuned"
JAX = metadata.version("jax")
is_measured = pytest.mark.skipif(JAX != "0.12.0.1", reason="the results are of jax 0.12.0.1")

# Lines as XLA prints them, cut to what is read.
HLO = """\
HloModule jit_f, is_scheduled=true

%inner (p: bf16[8,8]) -> bf16[8,8] {
  %p = bf16[8,8]{1,0} parameter(0)
  ROOT %d = bf16[8,8]{1,0} dot(%p, %p), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}

%outer (q: bf16[8,8]) -> bf16[8,8] {
  %q = bf16[8,8]{1,0} parameter(0)
  ROOT %f = bf16[8,8]{1,0} fusion(%q), kind=kCustom, calls=%inner
}

%plain (r: bf16[8,8]) -> bf16[8,8] {
  ROOT %r = bf16[8,8]{1,0} parameter(0)
}

ENTRY %main (a: bf16[8,8]) -> bf16[8,8] {
  %t.1 = bf16[8,8]{1,0} fusion(%a), calls=%outer, backend_config={FUSION:{"kind":"__triton_gemm"}}
  %t.2 = bf16[8,8]{1,0} fusion(%a), calls=%plain, backend_config={FUSION:{"kind":"__triton"}}
  %l = (bf16[8,8]{1,0}, s8[4]{0}) custom-call(%a), custom_call_target="__cublas$lt$matmul"
  %s = f32[8,8]{1,0} custom-call(%a), custom_call_target="__cublas$triangularSolve"
  %c.1 = (bf16[8]{0}, u8[0]{0}) custom-call(%a), CONV, backend_config={ALGORITHM:{"algo_id":"-1"}}}
  %c.2 = (bf16[8]{0}, u8[0]{0}) custom-call(%a), CONV, backend_config={ALGORITHM:{"algo_id":"41"}}}
  %c.3 = (bf16[8]{0}, u8[0]{0}) custom-call(%a), CONV, backend_config={ALGORITHM:{}}}
  %o.1 = (f32[1048576]{0}, s32[1048576]{0}) sort(%x, %y), dimensions={0}, to_apply=%less
  %o.2 = f32[64,1024]{1,0} sort(%z), dimensions={1}, to_apply=%less
  %k = f32[4]{0} custom-call(%a), custom_call_target="x.ffi", backend_config={batch = 1 : i64}
}
"""


def test_reading() -> None:
    hlo = (
        HLO.replace("FUSION", '"fusion_backend_config"')
        .replace("ALGORITHM", '"cudnn_conv_backend_config":{"algorithm"')
        .replace("CONV", 'custom_call_target="__cudnn$convForward"')
    )
    found = choices(hlo)
    assert found.triton_matmuls == ("%t.1 = bf16[8,8]{1,0}",)
    assert found.library_matmuls == ("%l = (bf16[8,8]{1,0}, s8[4]{0})",)
    assert [name.split()[0] for name in found.convolutions] == ["%c.1", "%c.2", "%c.3"]
    unchosen = found.convolutions_without_algorithm
    assert [name.split()[0] for name in unchosen] == ["%c.1", "%c.3"]
    assert [name.split()[0] for name in found.large_sorts] == ["%o.1"]
    assert choices("") == Choices()


CONVNET = (
    "{call: proj.programs:convnet, args: [x: 'bf16[8,64,64,64]', "
    "filters: ['bf16[3,3,64,64]', 'bf16[3,3,64,128]', 'bf16[3,3,128,128]']]}"
)
WEIGHTS = "weights: {like: 'proj.programs:weights'}"
DECODE = (
    f"{{call: proj.programs:decode, donate: [cache], args: [{WEIGHTS}, "
    "cache: {like: 'proj.programs:cache'}, token: 'i32[1]', position: 'i32[]']}"
)
PREFILL = f"{{call: proj.programs:prefill, args: [{WEIGHTS}, tokens: 'i32[1,512]']}}"


def matmul(dtype: str = "bf16", more: str = "") -> str:
    args = f"[a: '{dtype}[4096,4096]', b: '{dtype}[4096,4096]']"
    return f"{{call: proj.programs:matmul, args: {args}{more}}}"


@pytest.fixture(scope="module")
def environment() -> Environment:
    return cross_environment("cuda")


def build(
    folder: Path, environment: Environment, target: str = "gpu: h100-sxm", **functions: str
) -> Package:
    """Build the measured programs for one GPU."""
    never = ", verify: {golden: never}}"
    listing = "".join(f"  {name}: {entry[:-1]}{never}\n" for name, entry in functions.items())
    text = f"version: 1\npackage: proj\ntargets: [cuda: {{{target}}}]\nfunctions:\n{listing}"
    programs = (MEASURED / "programs.py").read_text(encoding="utf-8")
    root = write_project(folder, text, programs=programs)
    plan = make_plan(load_manifest(root / "aot.yaml"), environment)
    return build_package(plan, find_sources(root, "proj"), folder / "out" / "_aot")


def notes(package: Package) -> str:
    return "\n".join(package.notes)


class TestUntuned:
    @pytest.mark.wheel
    def test_matmuls_are_of_a_library(self, tmp_path: Path, environment: Environment) -> None:
        package = build(tmp_path, environment, b=matmul(), f=matmul("f32"), p=PREFILL)
        for record in package.records:
            found = record.provenance["choices"]
            assert found["tuned"] == "none"
            assert found["library_matmuls"] >= 1
            assert "triton_matmuls" not in found

    @pytest.mark.wheel
    def test_the_users_options_win(self, tmp_path: Path, environment: Environment) -> None:
        option = ", compiler_options: {xla_gpu_enable_triton_gemm: true}"
        package = build(tmp_path, environment, b=matmul(more=option))
        (record,) = package.records
        assert record.provenance["choices"]["triton_matmuls"] == 1
        assert "xla_gpu_enable_triton_gemm" in notes(package)
        assert "may be slow, or wrong" in notes(package)

    @pytest.mark.wheel
    def test_convolutions_are_refused(self, tmp_path: Path, environment: Environment) -> None:
        with pytest.raises(BuildError) as caught:
            build(tmp_path, environment, conv=CONVNET)
        (failure,) = caught.value.failures
        assert failure.unit.startswith("conv()")
        for part in ("cuda:h100-sxm:1: a convolution's algorithm", "%", "aotbuild tune", "host"):
            assert part in failure.message

    @pytest.mark.wheel
    def test_large_sorts_are_told(self, tmp_path: Path, environment: Environment) -> None:
        package = build(
            tmp_path, environment, s="{call: 'proj.programs:order', args: [x: 'f32[1048576]']}"
        )
        assert package.records[0].provenance["choices"]["large_sorts"] == 1
        assert "three times as long as CUB's" in notes(package)


def tuning_file(folder: Path, *names: str) -> str:
    """Write the results of several programs into one file, and return its name."""
    texts = [(MEASURED / f"autotune-{name}.txt").read_text(encoding="utf-8") for name in names]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "h100.tuning").write_text(str(merge(map(TuningResults.parse, texts))), "utf-8")
    return "gpu: h100-sxm, tuning: h100.tuning"


class TestTuned:
    @is_measured
    @pytest.mark.wheel
    def test_every_instruction_is_found(self, tmp_path: Path, environment: Environment) -> None:
        names = [f"0.12.0.1-{name}" for name in ("convnet", "decode", "matmul")]
        target = tuning_file(tmp_path, *names)
        package = build(
            tmp_path, environment, target, convnet=CONVNET, decode=DECODE, matmul=matmul()
        )
        assert [r.provenance["choices"]["tuned"] for r in package.records] == ["all"] * 3
        assert "tuning" not in notes(package)
        assert by_name(package, "convnet").requires.cudnn == "9.19.0"
        shown = run("inspect", package.folder, "--all").stdout
        assert re.search(r"convnet\(\) +cuda:h100-sxm:1 +all +3 convolutions", shown), shown

    @is_measured
    @pytest.mark.wheel
    def test_results_of_another_version(self, tmp_path: Path, environment: Environment) -> None:
        """What is found is used; the rest is a note, and matmuls are those of a library."""
        target = tuning_file(tmp_path, "0.11.2-decode", "0.11.2-convnet")
        package = build(tmp_path, environment, target, decode=DECODE, convnet=CONVNET)
        decode, convnet = (by_name(package, name) for name in ("decode", "convnet"))
        assert decode.provenance["choices"]["tuned"] == "9 of 28"
        assert "triton_matmuls" not in decode.provenance["choices"]
        assert convnet.provenance["choices"]["tuned"] == "8 of 10"
        assert "9 of 28 instructions have a tuning result; %" in notes(package)
        assert "run aotbuild tune" in notes(package)

    @pytest.mark.wheel
    @pytest.mark.skipif(Version(JAX) >= Version("0.11"), reason="the results are of jax 0.12")
    def test_results_that_this_jax_cannot_read(
        self, tmp_path: Path, environment: Environment
    ) -> None:
        target = tuning_file(tmp_path, "0.12.0.1-matmul")
        package = build(tmp_path, environment, target, m=matmul())
        assert package.records[0].provenance["choices"]["tuned"] == "none"
        assert f"jax {JAX} can use no result" in notes(package)


def by_name(package: Package, name: str) -> Record:
    (record,) = (record for record in package.records if record.function == name)
    return record
