"""The benchmark harness: its registry, and its processes; nothing is timed here."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks import process, venvs
from benchmarks.places import HERE
from benchmarks.registry import read_systems
from benchmarks.scripts import SCRIPTS

pytestmark = pytest.mark.any_jax


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
