"""Results of tuning: their files, what a manifest may name, and tuning on a machine with a GPU."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from support.cli import run
from support.manifests import manifest, whole

from aotbuild.build.jobs import make_jobs
from aotbuild.build.tune import plan_tuning
from aotbuild.errors import ManifestError
from aotbuild.manifest import load_manifest, parse_manifest
from aotbuild.platforms.building import LocalDevices
from aotbuild.platforms.cuda.presets import GpuFiles, shipped_preset, tuning_to
from aotbuild.platforms.cuda.tune import PLATFORM, request_here
from aotbuild.platforms.cuda.tuning_results import TuningResults, merge
from aotbuild.toolchains.toolchain import Environment, probe

H100 = "NVIDIA H100 80GB HBM3"
# What XLA wrote on an H100; the programs beside it are what it measured.
MEASURED = Path(__file__).parents[2] / "packages" / "tuned"
OLD = 'results { device: "CUDA: 9.0, DNN version: 9.13.0" hlo: "{a \\"b\\"\\n" result { n: 1 } }'


def entry(device: str, instruction: str, value: str = "backend: TRITON") -> str:
    key = f'target {{ device: "{device}" hlo_fingerprint: "{instruction}" }}'
    return f"entries {{ key {{ {key} }} value {{ optimal_config {{ {value} }} }} }}\n"


def cudnn(instruction: str, version: str) -> str:
    return entry("d", instruction, f'backend: CUDNN }} optimal_backend_version: "{version}" n {{')


class TestFile:
    @pytest.mark.parametrize("file", sorted(MEASURED.glob("autotune-*.txt")), ids=lambda f: f.stem)
    def test_what_xla_wrote(self, file: Path) -> None:
        text = file.read_text(encoding="utf-8")
        found = TuningResults.parse(text)
        assert len(found.keys) == text.count("entries {")
        measured = found.measured_on(H100, "0.12.0.1")
        assert str(measured).startswith(f"# measured on {H100} by jax 0.12.0.1\nentries {{ key {{")
        assert TuningResults.parse(str(measured)).keys == found.keys
        assert TuningResults.parse(str(measured)).device_kinds == (H100,)
        fitting = measured.fitting("0.12.0.1", H100)
        assert fitting.count == len(found.keys)
        assert fitting.cudnn == ("9.19.0" if "convnet" in file.stem else None)
        assert measured.fitting("0.10.2", H100).count == 0
        assert measured.fitting("0.12.0.1", "NVIDIA L4").count == 0

    def test_the_older_form(self) -> None:
        found = TuningResults.parse(f"version: 3\n{OLD}\n")
        assert str(found) == f"version: 3\n{OLD}\n"
        fitting = found.fitting("0.10.2", H100)
        assert (fitting.text, fitting.cudnn) == (str(found), "9.13.0")
        assert found.fitting("0.12.0.1", H100).count == 0

    def test_several_machines_and_versions(self) -> None:
        """The newest result of a key is kept; the same jax's is used, with one cuDNN."""
        one = TuningResults.parse(entry("d", "i", "n: 1") + cudnn("c", "9.19.0"))
        two = TuningResults.parse(entry("d", "i", "n: 2") + cudnn("c", "9.20.0"))
        other = TuningResults.parse(entry("e", "i", "n: 3")).measured_on("NVIDIA L4", "0.12.0.1")
        old = TuningResults.parse(f"version: 3\n{OLD}\n").measured_on(H100, "0.10.2")
        joined = merge(
            [one.measured_on(H100, "0.12.0"), two.measured_on(H100, "0.12.1"), other, old]
        )
        found = TuningResults.parse(str(joined))
        assert set(found.results) == set(joined.results)
        assert len(found.results) == 6
        assert found.summary() == (
            f"1 of {H100} by jax 0.10.2; 2 of {H100} by jax 0.12.0; 2 of {H100} by jax 0.12.1; "
            "1 of NVIDIA L4 by jax 0.12.0.1"
        )
        for jax, number, version in (("0.12.0", 1, "9.19.0"), ("0.12.1", 2, "9.20.0")):
            fitting = found.fitting(jax, H100)
            assert f"n: {number}" in fitting.text
            assert (fitting.count, fitting.cudnn) == (2, version)
        assert found.fitting("0.13", H100).cudnn == "9.20.0"
        again = found.merged(
            TuningResults.parse(entry("d", "i", "n: 4")).measured_on(H100, "0.12.0")
        )
        assert "n: 4" in again.fitting("0.12.0", H100).text
        assert len(again.results) == len(found.results)

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("", "there are no results in it"),
            ("version: 3\n", "there are no results in it"),
            (f"version: 3\n{OLD}"[:-3], "it ends within a result"),
            (entry("d", "i")[:-20], "it ends within a result"),
            ("version:", "its last field has no value"),
            ("version: 3 'x", "line 1 is no text format of protobuf"),
            (f"{entry('d', 'i')}other: 3", "expected entries, or a version and results, found"),
            ("version: 99\n", "its format is not version 3, the only one known"),
            ("entries { key: 1 }", "does not say for which device and instruction"),
            (cudnn("c", "new"), "a result of cuDNN has no version that can be read"),
        ],
    )
    def test_refused(self, text: str, message: str) -> None:
        with pytest.raises(ValueError, match=message):
            TuningResults.parse(text)


class TestManifest:
    def read(self, folder: Path, text: str | bytes) -> GpuFiles:
        data = text if isinstance(text, bytes) else text.encode()
        (folder / "tuned.txt").write_bytes(data)
        targets = "targets: [cuda: {gpu: h200, tuning: tuned.txt}]\n"
        (folder / "aot.yaml").write_text(whole(targets), encoding="utf-8")
        (target,) = load_manifest(folder / "aot.yaml").targets
        assert isinstance(target.files, GpuFiles)
        return target.files

    def test_text(self, tmp_path: Path) -> None:
        assert self.read(tmp_path, entry("d", "i")).tuning == entry("d", "i")

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("garbage", "is no file of tuning results: its last field has no value; "),
            (b"\x08\x03\xff", "is no file of tuning results: it is no UTF-8 text; aotbuild tune"),
            (f"# measured on NVIDIA L4 by jax 0.10.2\n{entry('d', 'i')}", (
             "has results of NVIDIA L4, but this target is NVIDIA H200; tune on that GPU")),
        ],
    )  # fmt: skip
    def test_refused(self, text: str | bytes, message: str, tmp_path: Path) -> None:
        with pytest.raises(ManifestError, match=message):
            self.read(tmp_path, text)

    def test_this_machine_has_no_gpu(self) -> None:
        with pytest.raises(ManifestError, match=r"no GPU can be used here: .*; build on the mach"):
            parse_manifest(whole("targets: [cuda: {gpu: host}]\n"))


class TestPlan:
    def local(self, count: int) -> LocalDevices:
        return LocalDevices(request_here(shipped_preset("l4")), count, "NVIDIA L4")

    def environment(self) -> Environment:
        found = probe()
        (toolchain,) = found.toolchains
        # The machine's own CUDA compiles: NVIDIA's packages are not needed.
        plugins = tuple((f"jax-cuda13-{name}", toolchain.jax) for name in ("plugin", "pjrt"))
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
        # What the user's code makes while it is imported stays on the CPU.
        assert environment["JAX_PLATFORMS"] == "cpu,cuda"
        assert environment["CUDA_VISIBLE_DEVICES"] == "1"
        assert environment["XLA_PYTHON_CLIENT_PREALLOCATE"] == "false"
        assert "CUDA_HOME" not in environment
        assert job.golden == "never"


def test_without_a_gpu(tmp_path: Path) -> None:
    (tmp_path / "aot.yaml").write_text(whole(), encoding="utf-8")
    result = run("tune", tmp_path / "aot.yaml", "--out", tmp_path / "tuned.txt", code=5)
    assert "no GPU can be used here" in result.stderr
    assert not (tmp_path / "tuned.txt").exists()


def test_results_are_read_in_the_order_in_which_they_are_written() -> None:
    """Devices of a file may stand in any order, and one key may have two results."""
    line = 'results {{ device: "{}" hlo: "f(a)" result {{ gemm {{ algorithm: {} }} }} }}\n'
    text = "version: 3\n" + line.format("CUDA: 9.0", 7) + line.format("CUDA: 8.0", 7)
    found = TuningResults.parse(text + line.format("CUDA: 8.0", 5))
    assert [r.device for r in found.results] == ["CUDA: 8.0", "CUDA: 9.0"]
    assert "algorithm: 5" in found.results[0].text
    assert TuningResults.parse(str(found)) == found


def test_results_of_unknown_machines_stay_so() -> None:
    line = 'results { device: "CUDA: 9.0" hlo: "f(a)" result { gemm { algorithm: 7 } } }'
    measured = TuningResults.parse(entry("d", "i", "n: 1")).measured_on(H100, "0.12.0")
    joined = merge([measured, TuningResults.parse(f"version: 3\n{line}\n")])
    found = TuningResults.parse(str(joined))
    assert {r.form: r.device_kind for r in found.results} == {"entries": H100, "results": None}
