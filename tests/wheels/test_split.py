"""`aotbuild split`: a base and companions that are honest wheels, and together hold everything."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from email.parser import Parser
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from attacks import wheels
from support.cli import invoke, run
from support.installs import make_layer, pip
from support.packages import Built, build, portable
from support.reports import make_blob
from support.wheel_files import contents, everywhere, for_target, put_wheel, text

from aotbuild.errors import WheelRefused
from aotbuild.format.record import Golden
from aotbuild.format.record_json import record_to_json
from aotbuild.runtime.checked_blobs import open_index
from aotbuild.runtime.wheel_source import WheelSource
from aotbuild.toolchains.uv import uv_program
from aotbuild.verify.api import verify
from aotbuild.wheels.merge import merge_wheels
from aotbuild.wheels.split import split

X = np.arange(3, dtype=np.float32)
JAX = jax.__version__
BASE = wheels.NAME
CUDA = "demo_aot_cuda-1.0-py3-none-any.whl"
TPU = "demo_aot_tpu-1.0-py3-none-any.whl"


@pytest.fixture(scope="module")
def built() -> list[Built]:
    native = build("double", lambda x: x * 2, {"x": X}, constants={})
    return [native, portable(native, lambda x: x * 2)]


@pytest.fixture
def wheel(built: list[Built], tmp_path: Path) -> Path:
    return put_wheel(tmp_path / BASE, everywhere(built))


def with_plugins(path: Path, built: list[Built]) -> Path:
    """Write a wheel whose executables for a GPU and a TPU say which plugin made them."""
    cuda = {"capability": "9.0a", "cuda": "13.0", "plugin": ("jax-cuda13-pjrt", JAX)}
    tpu = {"plugin": ("libtpu", "0.0.42.1")}
    more = [
        for_target(built[0], "cuda:h100-sxm:1", **cuda),
        for_target(built[0], "tpu:v5e:2x2:1", **tpu),
    ]
    return put_wheel(path, [*built, *more])


def records(wheel: Path) -> list[Any]:
    index = open_index(WheelSource(wheel))
    found = [record for f in index.functions() for record in index.records(f.name)]
    return sorted((record_to_json(record) for record in found), key=json.dumps)


def requires(wheel: Path) -> list[str]:
    return Parser().parsestr(text(wheel, "/METADATA")).get_all("Requires-Dist") or []


class TestSplit:
    def test_each_record_is_in_one_wheel_as_it_was(self, wheel: Path, tmp_path: Path) -> None:
        parts = split(wheel, tmp_path / "out")
        found = [record for part in parts for record in records(part)]
        assert sorted(found, key=json.dumps) == records(wheel)
        platforms = [{r["target"].partition(":")[0] for r in records(part)} for part in parts]
        assert platforms == [{"cpu", "portable"}, {"cuda"}, {"tpu"}]

    def test_exact_files_of_a_companion(self, wheel: Path, tmp_path: Path) -> None:
        part = split(wheel, tmp_path / "out")[1]
        (record,) = records(part)
        info = "demo_aot_cuda-1.0.dist-info"
        assert list(contents(part)) == [
            "demo_aot_cuda/__init__.py",
            "demo_aot_cuda/_aot/index",
            f"demo_aot_cuda/_aot/blobs/{record['blob'][1]}.pjrt",
            f"{info}/METADATA",
            f"{info}/WHEEL",
            f"{info}/entry_points.txt",
            f"{info}/RECORD",
        ]
        assert text(part, "entry_points.txt") == "[aotbuild.companions]\ndemo = demo_aot_cuda\n"

    def test_requirements(self, wheel: Path, tmp_path: Path) -> None:
        base, cuda, _ = split(wheel, tmp_path / "out")
        assert requires(base) == [
            *requires(wheel),
            'demo-aot-cuda==1.0; extra == "cuda"',
            'demo-aot-tpu==1.0; extra == "tpu"',
        ]
        assert Parser().parsestr(text(base, "/METADATA")).get_all("Provides-Extra") == [
            "cuda",
            "tpu",
        ]
        assert requires(cuda) == ["demo==1.0", *wheels.REQUIRES]

    def test_the_plugin_of_its_executables(self, built: list[Built], tmp_path: Path) -> None:
        wheel = with_plugins(tmp_path / BASE, built)
        base, cuda, tpu = split(wheel, tmp_path / "out")
        assert requires(cuda) == ["demo==1.0", *wheels.REQUIRES, f"jax-cuda13-plugin=={JAX}"]
        assert requires(tpu) == ["demo==1.0", *wheels.REQUIRES, "libtpu==0.0.42.1"]
        # With what jax[cuda13] brings. The companion alone leaves that to the system.
        assert requires(base) == [
            *requires(wheel),
            'demo-aot-cuda==1.0; extra == "cuda"',
            f'jax-cuda13-plugin[with-cuda]=={JAX}; extra == "cuda"',
            'demo-aot-tpu==1.0; extra == "tpu"',
        ]

    @pytest.mark.wheel
    def test_what_uv_takes_for_the_extra(
        self, built: list[Built], links: Path, tmp_path: Path
    ) -> None:
        split(with_plugins(tmp_path / BASE, built), tmp_path / "out")
        options = ("--no-header", "--no-annotate", "--find-links", tmp_path / "out")
        options = (*options, "--find-links", links, "--python-platform", "x86_64-manylinux_2_28")
        options = (*options, "--python", sys.executable)
        command = [uv_program(), "pip", "compile", "--quiet", *map(str, options), "-"]
        found = subprocess.run(command, input="demo[cuda]", capture_output=True, text=True)
        assert {"demo-aot-cuda==1.0", f"jax-cuda13-plugin=={JAX}", f"jax-cuda13-pjrt=={JAX}"} < set(
            found.stdout.split()
        ), found.stderr
        assert "nvidia-cublas==" in found.stdout

    def test_a_base_may_keep_nothing(self, wheel: Path, tmp_path: Path) -> None:
        base, *others = split(wheel, tmp_path / "out", [])
        assert (records(base), len(others)) == ([], 4)
        report = verify(str(base), load=False)
        assert report.passed, report
        assert "double" in run("inspect", base).stdout

    def test_golden_blobs_go_with_their_records(self, built: list[Built], tmp_path: Path) -> None:
        data = b"golden"
        blob = make_blob(data, "safetensors")
        cuda = for_target(built[0], "cuda:h100-sxm:1", capability="9.0a")
        golden = replace(cuda.record, golden=Golden((), blob))
        proven = Built(cuda.function, golden, {**cuda.blobs, blob.path: data})
        base, part = split(put_wheel(tmp_path / BASE, [*built, proven]), tmp_path / "out")
        assert f"demo_aot_cuda/_aot/{blob.path}" in contents(part)
        assert f"demo/_aot/{blob.path}" not in contents(base)


class TestRefused:
    def test_a_wheel_that_fails_a_check(self, wheel: Path, tmp_path: Path) -> None:
        data = contents(wheel)
        data["demo/__init__.py"] = b"changed"
        (tmp_path / "bad").mkdir()
        bad = wheels.write_wheel(tmp_path / "bad" / BASE, data.items())
        with pytest.raises(WheelRefused) as caught:
            split(bad, tmp_path / "out")
        assert caught.value.problem == "its checks fail"
        assert any("demo/__init__.py" in reason for reason in caught.value.reasons)

    def test_nothing_to_take_out(self, built: list[Built], tmp_path: Path) -> None:
        wheel = put_wheel(tmp_path / BASE, built)
        with pytest.raises(WheelRefused, match="all of its executables are of what the base keeps"):
            split(wheel, tmp_path / "out")
        assert not (tmp_path / "out").exists()

    def test_parts(self, wheel: Path, tmp_path: Path) -> None:
        base, cuda, _ = split(wheel, tmp_path / "out")
        for path in (base, cuda):
            with pytest.raises(WheelRefused, match="it is a part of a wheel that was split"):
                split(path, tmp_path / "again")
            with pytest.raises(WheelRefused, match="merge first, and split what that writes"):
                merge_wheels([wheel, path], tmp_path / "merged")

    @pytest.mark.parametrize(
        ("line", "reason"),
        [
            ("Requires-Dist2 x", "METADATA: a line before the description is no header"),
            ("Summary: a\rX: b", "METADATA: a line ends with a carriage return alone"),
            ("Requires-Dist: x; os", "METADATA: Requires-Dist: 'x; os': "),
        ],
    )
    def test_metadata_that_others_read_otherwise(
        self, built: list[Built], tmp_path: Path, line: str, reason: str
    ) -> None:
        """Requirements would be added where no installer looks for them."""
        lines = ["Metadata-Version: 2.4", "Name: demo", "Version: 1.0"]
        lines += [f"Requires-Dist: {each}" for each in wheels.REQUIRES]
        metadata = {f"{wheels.INFO}/METADATA": "\n".join([*lines, line, ""]).encode()}
        wheel = put_wheel(tmp_path / BASE, everywhere(built), changes=metadata)
        with pytest.raises(WheelRefused) as caught:
            split(wheel, tmp_path / "out")
        (found,) = caught.value.reasons
        assert found.startswith(reason)

    def test_nothing_is_replaced(self, wheel: Path, tmp_path: Path) -> None:
        out = tmp_path / "out"
        out.mkdir()
        (out / TPU).write_bytes(b"published")
        result = invoke("split", wheel, "--out", out)
        assert result.exit_code == 6
        assert "is there already" in result.stderr
        assert {path.name: path.read_bytes() for path in out.iterdir()} == {TPU: b"published"}


class TestCommand:
    def test_text_and_json(self, wheel: Path, tmp_path: Path) -> None:
        shown = run("split", wheel, "--out", tmp_path / "out").stdout.splitlines()
        assert [Path(line.split()[0]).name for line in shown] == [BASE, CUDA, TPU]
        document = json.loads(run("split", wheel, "--out", tmp_path / "json", "--json").stdout)
        assert document["error"] is None
        assert [Path(item["path"]).name for item in document["wheels"]] == [BASE, CUDA, TPU]
        sizes = [(tmp_path / "json" / name).stat().st_size for name in (BASE, CUDA, TPU)]
        assert [item["size"] for item in document["wheels"]] == sizes


@pytest.mark.wheel
def test_installed_by_pip(built: list[Built], tmp_path: Path) -> None:
    """pip takes the parts, an extra brings its companion, and the loader finds it."""
    wheel = put_wheel(tmp_path / BASE, everywhere(built))
    out = tmp_path / "out"
    split(wheel, out, ["portable"])
    python = make_layer(tmp_path / "env")
    pip(python, "install", "--quiet", "--no-index", "demo[cpu]", links=out)
    listed = pip(python, "list", "--format=freeze", links=out)
    assert {"demo==1.0", "demo-aot-cpu==1.0"} <= set(listed.split())
    assert "demo-aot-cuda" not in listed
    code = (
        "import aotbuild, numpy as np\n"
        "library = aotbuild.load('demo')\n"
        "assert library.preload() == 1\n"
        "print(library.double(np.arange(3, dtype='float32')))\n"
    )
    done = subprocess.run([python, "-P", "-c", code], capture_output=True, text=True, cwd=tmp_path)
    assert done.stdout.strip() == "[0. 2. 4.]", done.stderr
    shown = subprocess.run(
        [python, "-m", "pip", "check"], capture_output=True, text=True, cwd=tmp_path
    )
    assert "demo" not in shown.stdout, "what pip finds missing or in conflict"
