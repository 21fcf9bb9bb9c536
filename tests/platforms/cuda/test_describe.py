"""`aotbuild doctor --describe-gpu`: a preset from the driver, which is a fake one here."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from support.processes import ROOT

from aotbuild.errors import NoGpu
from aotbuild.manifest.targets import read_model
from aotbuild.platforms.cuda.driver import Driver
from aotbuild.platforms.cuda.presets import read_preset, shipped_preset


class FakeLibrary:
    """A driver of which every call fails with one code."""

    def __init__(self, code: int) -> None:
        self.code = code

    def __getattr__(self, name: str) -> Any:
        return lambda *_: self.code

    def cuGetErrorString(self, code: ctypes.c_int, text: Any) -> int:  # noqa: N802 (the C name)
        text._obj.value = b"no CUDA-capable device is detected"
        return 0


def describe(libraries: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return command(libraries, "doctor", *options)


def command(libraries: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "aotbuild.cli", *words],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "LD_LIBRARY_PATH": str(libraries)},
    )


class TestDescribe:
    @pytest.mark.process
    def test_preset_of_the_driver_is_read_back(self, libraries: Path, tmp_path: Path) -> None:
        done = describe(libraries, "--describe-gpu")
        assert done.returncode == 0, done.stderr
        file = tmp_path / "mine.yaml"
        file.write_text(done.stdout, encoding="utf-8")
        preset, shipped = read_preset(file, read_model), shipped_preset("h200")
        assert (preset.device_kind, preset.capability) == ("NVIDIA H200", "9.0a")
        # 2 x 3201 MHz x 6144 bit / 8, which data sheets round.
        assert dict(preset.facts) == {**dict(shipped.facts), "memory_bandwidth": 4916736000000}

    @pytest.mark.process
    def test_number_that_is_not_there(self, libraries: Path) -> None:
        done = describe(libraries, "--describe-gpu=3")
        assert done.returncode == 5
        assert "found    there is no GPU 3; this process sees 1, counted from 0" in done.stderr


def project(folder: Path, more: str = "") -> str:
    """Write a project and return its manifest, with more lines of it."""
    (folder / "proj").mkdir()
    (folder / "proj/__init__.py").write_text("def f(x):\n    return x\n", encoding="utf-8")
    text = f"version: 1\npackage: proj\n{more}"
    entry = "functions: {f: {call: 'proj:f', args: [x: 'f32[4]']}}\n"
    (folder / "aot.yaml").write_text(text + entry, encoding="utf-8")
    return str(folder / "aot.yaml")


@pytest.mark.process
def test_a_build_for_the_gpu_of_this_machine(libraries: Path, tmp_path: Path) -> None:
    """Its target has the name of the preset of that GPU; the toolchain measures, so it is whole."""
    toolchain = f"toolchains: [{{jax: {metadata.version('jax')}}}]\n"
    manifest = project(tmp_path, f"targets: [cuda: {{gpu: host}}]\n{toolchain}")
    done = command(libraries, "plan", manifest)
    assert done.returncode == 0, done.stderr
    assert "cuda:h200:1" in done.stdout
    assert "measured on this machine's GPU for cuda:h200:1" in done.stdout


@pytest.mark.process
def test_tuning_without_the_plugin(libraries: Path, tmp_path: Path) -> None:
    out = tmp_path / "h200.tuning"
    done = command(libraries, "tune", project(tmp_path), "--out", str(out))
    assert done.returncode == 3, done.stderr
    assert "jax-cuda13-plugin, jax-cuda13-pjrt is not installed" in done.stderr
    assert "pip install 'jax[cuda13]==" in done.stderr
    assert not out.exists()


def test_driver_without_gpu() -> None:
    with pytest.raises(NoGpu, match="cuInit of NVIDIA's driver failed: error 100, no CUDA-capable"):
        Driver(FakeLibrary(100))
