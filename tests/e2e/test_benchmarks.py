"""The benchmark harness: statistics, registry, bars, tables; nothing is timed here."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.processes import ROOT

from benchmarks import process, venvs
from benchmarks.bars import OURS_GIVEN, OURS_HOLDING, all_bars
from benchmarks.building import noop
from benchmarks.building.limits import LIMITS
from benchmarks.cold import in_rounds, mismatches, relative_difference
from benchmarks.medians import paired, summarize
from benchmarks.models.data import make_data
from benchmarks.places import HERE
from benchmarks.process import Sample
from benchmarks.registry import MODELS, System, read_systems
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

    def test_none_is_an_error(self) -> None:
        with pytest.raises(ValueError, match="no samples"):
            summarize([])

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

    def test_no_script_hides_a_module(self) -> None:
        """A script's folder is the first place for imports: `iree.py` there would hide iree."""
        for folder in ("systems", "builders"):
            assert all("_" in path.stem for path in (HERE / folder).glob("*.py"))

    def test_systems_share_an_artifact_by_name(self) -> None:
        one, other = system("one", artifact="aot"), system("other", artifact="aot")
        assert one.artifact_folder("digits") == other.artifact_folder("digits")
        assert one.artifact_folder("digits") != system("third").artifact_folder("digits")


class TestEnvironments:
    def test_our_wheel_replaces_our_name(self) -> None:
        text = "# why\njax==1\n\naotbuild[build]\naotbuildings==2\n"
        assert venvs.requirements_of(text, lambda: Path("/w/a.whl")) == [
            "jax==1",
            "aotbuild[build] @ file:///w/a.whl",
            "aotbuildings==2",
        ]

    def test_a_missing_file_is_a_reason(self) -> None:
        with pytest.raises(venvs.Unavailable, match=r"environments/none-such\.txt is missing"):
            venvs.make_environment("none-such")


class TestModels:
    @pytest.mark.parametrize("model", MODELS)
    def test_data_are_the_same_each_time(self, model: str) -> None:
        one, other = make_data(model), make_data(model)
        for arrays, again in zip(one, other, strict=True):
            assert list(arrays) == list(again)
            for name, array in arrays.items():
                np.testing.assert_array_equal(array, again[name])


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

    def test_the_shell_changes_nothing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("XLA_FLAGS", "--xla_cpu_max_isa=AVX")
        monkeypatch.setenv("AOTBUILD_FALLBACK", "jit")
        assert not {"XLA_FLAGS", "AOTBUILD_FALLBACK"} & set(process.clean_environment())


class TestRounds:
    def test_each_round_starts_one_later(self) -> None:
        order: list[str] = []

        def once(one: System) -> Sample:
            order.append(one.name)
            return Sample(1.0, 1.0, 1.0, {}, ())

        samples = in_rounds([system("a"), system("b"), system("c")], 3, once)
        assert "".join(order) == "abcbcacab"
        assert {name: len(taken) for name, taken in samples.items()} == {"a": 3, "b": 3, "c": 3}

    def test_a_system_that_fails_leaves_the_others(self) -> None:
        def once(one: System) -> Sample:
            if one.name == "b":
                raise venvs.Unavailable("gone")
            return Sample(1.0, 1.0, 1.0, {}, ())

        samples = in_rounds([system("a"), system("b")], 2, once)
        assert {name: len(taken) for name, taken in samples.items()} == {"a": 2}


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

    def test_dispatch(self) -> None:
        rows = [{"backend": "jax", "signatures": 64, "ratio": 1.04}]
        bars = {bar.name: bar for bar in all_bars(results("dispatch", {"rows": rows}))}
        assert bars["Warm call at 64 signatures: jax backend / jit"].verdict == "missed"


class TestPage:
    def test_systems_are_ordered_and_gaps_named(self) -> None:
        text = page(results("cold", cold_report(jit=[1.0, 1.2], numpy=[0.25, 0.3])))
        assert text.index("| numpy | 275 (262 to 288) | 0.25") < text.index("| jit | 1100")
        assert "a CPU, 2 CPUs, 8 GB, Linux 6, Python 3.11.1, jax 1.2.3, numpy 4.5" in text
        assert "- iree: exit status 1: no such module" in text

    def test_scripts_become_tables(self) -> None:
        rows = [{"system": "a", "threads": {"1": 1234.5, "2": 0.51239}, "all": [1, 2]}]
        text = page(results("imports", {"rows": rows}))
        assert (
            "| system | threads 1 | threads 2 |\n| --- | ---: | ---: |\n| a | 1,234 | 0.5124 |"
            in (text)
        )

    def test_other_columns_begin_another_table(self) -> None:
        text = page(results("imports", {"rows": [{"a": 1}, {"a": 2}, {"b": 3}]}))
        assert "| a |\n| --- |\n| 1 |\n| 2 |\n\n| b |\n| --- |\n| 3 |" in text

    def test_a_part_of_all_models_that_is_not_available(self) -> None:
        text = page(results("cold", {"not_available": "no uv"}))
        assert "- cold: no uv" in text
        assert mismatches({"not_available": "no uv"}) == []

    def test_nothing_measured(self) -> None:
        assert page({}).startswith("Nothing was measured yet.")


class TestScripts:
    def test_rows_of_lines_documents_and_lists(self) -> None:
        assert parse_rows('noise\n{"a": 1}\n{"a": 2}\n') == [{"a": 1}, {"a": 2}]
        assert parse_rows('{"a":\n 1}') == [{"a": 1}]
        assert parse_rows('[{"a": 1}]') == [{"a": 1}]
        with pytest.raises(ValueError, match="printed no JSON"):
            parse_rows("done\n")


@pytest.mark.wheel
def test_builds(tmp_path: Path) -> None:
    """`benchmarks/build.py` in a small size: it measures what has a limit, and each is a bar."""
    command = [sys.executable, str(ROOT / "benchmarks" / "build.py"), "noop"]
    options = ("--quick", "--json", "--no-limits")
    done = subprocess.run([*command, *options], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    row = json.loads(done.stdout)
    found = {"build_noop": {"report": {"rows": [row]}}}
    measured = {bar.name for bar in all_bars(found) if bar.measured is not None}
    assert measured == {limit.title for limits in LIMITS.values() for limit in limits}


def test_the_plain_project_has_no_hook(tmp_path: Path) -> None:
    hooked, plain = noop.write_projects(tmp_path)
    assert "aotbuild" in (hooked / "pyproject.toml").read_text()
    assert "aotbuild" not in (plain / "pyproject.toml").read_text()
