"""The benchmark harness: statistics, registry, bars, tables; nothing is timed here."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import process, venvs
from benchmarks.bars import OURS_GIVEN, OURS_HOLDING, all_bars
from benchmarks.cold import in_rounds, mismatches, relative_difference
from benchmarks.medians import paired, summarize
from benchmarks.places import HERE
from benchmarks.process import Sample
from benchmarks.registry import System, read_systems
from benchmarks.scripts import SCRIPTS, parse_rows
from benchmarks.tables import page

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


def results(part: str, report: dict[str, Any]) -> dict[str, Any]:
    machine = {
        "processor": "a CPU",
        "cpus": 2,
        "memory_gb": 8,
        "system": "Linux 6",
        "python": "3.11.1",
        "date": "2026-01-01",
    }
    document = {
        "part": part,
        "quick": True,
        "machine": machine,
        "environments": {"jax": {"jax": "1.2.3", "numpy": "4.5"}},
        "report": report,
    }
    return {part: document}


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


class TestEnvironments:
    def test_our_wheel_replaces_our_name(self) -> None:
        text = "# why\njax==1\n\naotbuild[build]\naotbuildings==2\n"
        assert venvs.requirements_of(text, lambda: Path("/w/a.whl")) == [
            "jax==1",
            "aotbuild[build] @ file:///w/a.whl",
            "aotbuildings==2",
        ]


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


class TestBars:
    def test_met_missed_and_not_measured(self) -> None:
        found = results("cold", cold_report(jit=[1.0], serialize=[0.5], **{OURS_GIVEN: [0.3]}))
        verdicts = {bar.name: bar.verdict for bar in all_bars(found)}
        assert verdicts["Cold start, transformer: numpy-fast / jit"] == "met"
        assert verdicts["Cold start, transformer: numpy-fast / serialize"] == "missed"
        assert verdicts["Cold start, transformer: jax / serialize"] == "not measured"

    def test_every_peer_that_was_there_is_a_bar(self) -> None:
        found = results("cold", cold_report(onnxruntime=[0.4], **{OURS_HOLDING: [0.3]}))
        (bar,) = [bar for bar in all_bars(found) if "onnxruntime" in bar.name]
        assert (bar.limit, bar.verdict) == (1.0, "met")


class TestPage:
    def test_systems_are_ordered_and_gaps_named(self) -> None:
        text = page(results("cold", cold_report(jit=[1.0, 1.2], numpy=[0.25, 0.3])))
        assert text.index("| numpy | 275 (262 to 288) | 0.25") < text.index("| jit | 1100")
        assert "a CPU, 2 CPUs, 8 GB, Linux 6, Python 3.11.1, jax 1.2.3, numpy 4.5" in text
        assert "- iree: exit status 1: no such module" in text

    def test_other_columns_begin_another_table(self) -> None:
        text = page(results("imports", {"rows": [{"a": 1}, {"a": 2}, {"b": 3}]}))
        assert "| a |\n| --- |\n| 1 |\n| 2 |\n\n| b |\n| --- |\n| 3 |" in text


class TestScripts:
    def test_rows_of_lines_documents_and_lists(self) -> None:
        assert parse_rows('noise\n{"a": 1}\n{"a": 2}\n') == [{"a": 1}, {"a": 2}]
        assert parse_rows('{"a":\n 1}') == [{"a": 1}]
        assert parse_rows('[{"a": 1}]') == [{"a": 1}]
        with pytest.raises(ValueError, match="printed no JSON"):
            parse_rows("done\n")
