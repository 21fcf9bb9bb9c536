"""The benchmark harness: statistics, registry, bars, tables; nothing is timed here."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import process, venvs
from benchmarks.cold import in_rounds, mismatches, relative_difference
from benchmarks.medians import paired, summarize
from benchmarks.places import HERE
from benchmarks.process import Sample
from benchmarks.registry import System, read_systems
from benchmarks.scripts import SCRIPTS

pytestmark = pytest.mark.any_jax


def system(name: str, **more: Any) -> System:
    return System(name, name.title(), "jax", "systems/run_jit.py", ("digits",), **more)


def cold_report(**first_results: list[float]) -> dict[str, Any]:
    """Return what a cold start of the transformer would report, for systems by name."""
    return {
        "transformer": {
            "rounds": 3,
            "not_available": {"iree": "exit status 1: no such module"},
            "systems": {
                name: {
                    "title": name,
                    "peer": name == "onnxruntime",
                    "difference": None if name == "floor" else 1e-6,
                    "wall_s": [2 * sample for sample in samples],
                    "first_result_s": samples,
                    "cpu_s": samples,
                    "rss_mb": [100.0] * len(samples),
                    "stages_s": {"python": samples},
                    "build_s": None,
                    "size_mb": 1.5,
                }
                for name, samples in first_results.items()
            },
        }
    }


class TestMedians:
    def test_median_and_quartiles(self) -> None:
        summary = summarize([5.0, 1.0, 4.0, 2.0, 3.0])
        assert (summary.median, summary.low, summary.high, summary.count) == (3.0, 2.0, 4.0, 5)
        assert summary.text(1000, 0) == "3000 (2000 to 4000)"

    def test_ratios_are_of_the_same_round(self) -> None:
        assert paired([1.0, 20.0], [2.0, 10.0]).median == 1.25


class TestRegistry:
    def test_every_environment_is_pinned(self) -> None:
        for one in read_systems():
            for name in filter(None, (one.environment, one.build_environment)):
                text = (HERE / "environments" / f"{name}.txt").read_text()
                for line in venvs.requirements_of(text, lambda: Path("/wheel.whl")):
                    assert "==" in line or " @ file://" in line or line.startswith("-"), line

    def test_every_script_is_there(self) -> None:
        assert [script for script in SCRIPTS if not (HERE / script.file).is_file()] == []

    def test_names_what_is_wrong(self, tmp_path: Path) -> None:
        path = tmp_path / "systems.toml"
        path.write_text('[new]\ntitle = "New"\nscripts = "x"\nmodels = ["resnet"]\n')
        with pytest.raises(ValueError, match=r"unknown \['scripts', 'resnet'\], missing"):
            read_systems(path)


class TestProcess:
    SCRIPT = """
import sys
sys.path.insert(0, {systems!r})
import run_support as run
run.mark("load")
run.finish(lambda: [[1.0, 2.0], [3.0]])
"""

    @pytest.mark.process
    def test_a_process_tells_its_stages_and_saves_outputs(self, tmp_path: Path) -> None:
        script = tmp_path / "script.py"
        script.write_text(self.SCRIPT.format(systems=str(HERE / "systems")))
        out = tmp_path / "out.npy"
        sample = process.run([sys.executable, str(script), "--out", str(out), "--calls", "3"])
        assert list(sample.stages) == ["python", "load", "first call"]
        assert len(sample.calls) == 3
        assert 0 < sample.first_result_s < sample.wall_s
        np.testing.assert_array_equal(np.load(out), np.array([1, 2, 3], np.float32))

    @pytest.mark.process
    def test_a_process_that_fails_is_a_reason(self, tmp_path: Path) -> None:
        script = tmp_path / "broken.py"
        script.write_text("raise SystemExit('no such model')")
        expected = "broken.py ended with exit status 1: no such model"
        with pytest.raises(venvs.Unavailable, match=expected):
            process.run([sys.executable, str(script)])


class TestRounds:
    def test_each_round_starts_one_later(self) -> None:
        order: list[str] = []

        def once(one: System) -> Sample:
            order.append(one.name)
            return Sample(1.0, 1.0, 1.0, {}, ())

        samples = in_rounds([system("a"), system("b"), system("c")], 3, once)
        assert "".join(order) == "abcbcacab"
        assert {name: len(taken) for name, taken in samples.items()} == {"a": 3, "b": 3, "c": 3}


class TestOutputs:
    def test_differences_are_of_the_largest_output(self) -> None:
        expected = np.array([100.0, 0.0])
        assert relative_difference(np.array([100.0, 1.0]), expected) == 0.01
        assert relative_difference(np.array([np.nan, 0.0]), expected) == float("inf")
        assert relative_difference(np.array([100.0]), expected) == float("inf")

    def test_a_mismatch_is_named(self) -> None:
        report = cold_report(jit=[1.0], numpy=[1.0], floor=[1.0])
        assert mismatches(report) == []
        report["transformer"]["systems"]["numpy"]["difference"] = 0.5
        assert mismatches(report) == [
            "transformer: numpy: outputs differ from jax.jit by 0.5 of the largest"
        ]
