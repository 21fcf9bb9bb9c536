"""Results of tuning: their files, what a manifest may name, and tuning on a machine with a GPU."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from support.cli import run
from support.manifests import manifest, whole

from aotbuild.build.jobs import make_jobs
from aotbuild.build.tune import plan_tuning
from aotbuild.errors import ManifestError, PlanError
from aotbuild.manifest import load_manifest, parse_manifest
from aotbuild.platforms.building import LocalDevices, description
from aotbuild.platforms.cuda.describe import GpuFiles
from aotbuild.platforms.cuda.hardware import tuning_to
from aotbuild.platforms.cuda.presets import shipped_preset
from aotbuild.platforms.cuda.tune import PLATFORM, request_for
from aotbuild.platforms.cuda.tuning_results import TuningResults, merge
from aotbuild.toolchains.toolchain import Environment, probe

ENTRY = 'results { device: "CUDA: 9.0, DNN version: 9.13.0" hlo: "{a \\"b\\"\\n" result { n: 1 } }'
TEXT = f"version: 3\n{ENTRY}\n"


class TestFile:
    def test_round_trip(self) -> None:
        results = replace(TuningResults.parse(TEXT), device_kind="NVIDIA H200")
        assert results.version == 3
        assert len(results.entries) == 1
        assert TuningResults.parse(str(results)) == results
        assert str(results).startswith("# device_kind: NVIDIA H200\nversion: 3\nresults { device:")

    def test_merge(self) -> None:
        one, two = TuningResults(3, ("{ b }", "{ a }")), TuningResults(3, ("{ a }",))
        assert merge([one, two], "G") == TuningResults(3, ("{ a }", "{ b }"), "G")
        assert merge([], "G").entries == ()
        with pytest.raises(ValueError, match=r"of the formats \[3, 4\] cannot be joined"):
            merge([one, TuningResults(4, ())], "G")

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("", "the version of the format is missing"),
            ("version: 3\n", "there are no results in it"),
            (TEXT[:-3], "it ends within a result"),
            ("version:", "its last field has no value"),
            ("version: 3 'x", "line 1 is no text format of protobuf"),
            (f"{TEXT}other: 3", "expected a version and results, found another field"),
        ],
    )
    def test_refused(self, text: str, message: str) -> None:
        with pytest.raises(ValueError, match=message):
            TuningResults.parse(text)


class TestManifest:
    def read(self, folder: Path, text: str | bytes) -> GpuFiles:
        data = text if isinstance(text, bytes) else text.encode()
        (folder / "tuned.txt").write_bytes(data)
        targets = "targets: [cuda: {gpu: h200, autotune: tuned.txt}]\n"
        (folder / "aot.yaml").write_text(whole(targets), encoding="utf-8")
        (target,) = load_manifest(folder / "aot.yaml").targets
        assert isinstance(target.files, GpuFiles)
        return target.files

    def test_text(self, tmp_path: Path) -> None:
        assert self.read(tmp_path, TEXT).autotune == TEXT

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("garbage", "is no file of tuning results: its last field has no value; "),
            (b"\x08\x03\xff", "is no file of tuning results: it is no UTF-8 text; aotbuild tune"),
            (f"# device_kind: NVIDIA L4\n{TEXT}", ("has results of NVIDIA L4, but this target is "
             "NVIDIA H200; tune on that GPU")),
        ],
    )  # fmt: skip
    def test_refused(self, text: str | bytes, message: str, tmp_path: Path) -> None:
        with pytest.raises(ManifestError, match=message):
            self.read(tmp_path, text)

    def test_not_there(self) -> None:
        with pytest.raises(ManifestError, match=r"'none.txt' cannot be read, looked for beside"):
            parse_manifest(whole("targets: [cuda: {gpu: h200, autotune: none.txt}]\n"))


class TestPlan:
    def local(self, count: int) -> LocalDevices:
        return LocalDevices(request_for(shipped_preset("l4")), count, "NVIDIA L4")

    def environment(self) -> Environment:
        found = probe()
        names = [
            requirement.partition("==")[0] for requirement in description("cuda").packages("1")
        ]
        (toolchain,) = found.toolchains
        plugins = tuple((n, toolchain.jax if "jax" in n else "13") for n in names)
        return replace(found, toolchains=(replace(toolchain, plugins=plugins),))

    def test_compiles_for_this_machine(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
        found = manifest("targets: [cpu, portable]\n")
        tuning = plan_tuning(found, self.environment(), PLATFORM, self.local(1), Path("found"))
        assert [str(unit) for unit in tuning.plan.units] == ["f() for cuda:l4:1"]
        assert tuning.notes == ()
        ((settings, job, _),) = make_jobs(tuning.plan.units)
        assert tuning_to(job.hardware[0]) == "found/0.txt"
        environment = settings.environment({"CUDA_VISIBLE_DEVICES": "1", "CUDA_HOME": "/cuda"})
        assert environment["JAX_PLATFORMS"] == "cuda,cpu"
        assert environment["CUDA_VISIBLE_DEVICES"] == "1"
        assert "CUDA_HOME" not in environment
        assert job.golden == "never"

    def test_mesh_of_more(self) -> None:
        mesh = manifest(entry="call: m:f, args: [x: 'f32[4]', {y: 'f32[4]'}], mesh: {d: 4}")
        with pytest.raises(PlanError, match="its mesh has 4 devices, here are 2"):
            plan_tuning(mesh, self.environment(), PLATFORM, self.local(2), Path("found"))

    def test_other_jax(self) -> None:
        other = manifest("toolchains: [{jax: 0.1.2}]\n")
        with pytest.raises(PlanError, match=r"expected jax 0.1.2, found .* results are for one"):
            plan_tuning(other, self.environment(), PLATFORM, self.local(1), Path("found"))


def test_without_a_gpu(tmp_path: Path) -> None:
    (tmp_path / "aot.yaml").write_text(whole(), encoding="utf-8")
    result = run("tune", tmp_path / "aot.yaml", "--out", tmp_path / "tuned.txt", code=8)
    assert "no GPU can be used here" in result.stderr
    assert not (tmp_path / "tuned.txt").exists()
