"""Each part of `benchmarks/build.py`, in a small size, and the simulation; nothing is timed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.processes import ROOT
from support.projects import write_project

from aotbuild.build.jobs import make_jobs
from aotbuild.build.plan import make_plan
from aotbuild.build.schedule import Task
from aotbuild.manifest import load_manifest
from aotbuild.toolchains.toolchain import probe
from benchmarks.bars import all_bars
from benchmarks.building import noop
from benchmarks.building.limits import LIMITS
from benchmarks.building.simulation import WORKERS, Costs, simulate

PARTS = ("noop", "hits", "recording", "edit", "dask", "simulation", "cpus")


@pytest.fixture(scope="module")
def rows() -> dict[str, dict[str, Any]]:
    """What all parts print, one after the other as a user would run them."""
    command = [sys.executable, str(ROOT / "benchmarks" / "build.py"), *PARTS]
    options = ("--quick", "--json", "--no-limits")
    done = subprocess.run([*command, *options], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return dict(zip(PARTS, map(json.loads, done.stdout.splitlines()), strict=True))


@pytest.mark.wheel
@pytest.mark.any_jax
class TestParts:
    def test_limits_are_of_what_is_measured(self, rows: dict[str, dict[str, Any]]) -> None:
        for part, limits in LIMITS.items():
            for limit in limits:
                assert isinstance(rows[part][limit.key], float | int)

    def test_bars(self, rows: dict[str, dict[str, Any]]) -> None:
        found = {f"build_{part}": {"report": {"rows": [row]}} for part, row in rows.items()}
        measured = {bar.name for bar in all_bars(found) if bar.measured is not None}
        assert measured == {limit.title for limits in LIMITS.values() for limit in limits}

    def test_an_edit_is_traced_alone(self, rows: dict[str, dict[str, Any]]) -> None:
        assert rows["edit"]["is_the_edited_one"]
        assert (rows["edit"]["compiled"], rows["edit"]["traced"]) == (1, 1)

    def test_all_numbers_of_workers(self, rows: dict[str, dict[str, Any]]) -> None:
        took = rows["simulation"]["took_s"]
        assert list(took) == [str(workers) for workers in WORKERS]
        assert list(took.values()) == sorted(took.values(), reverse=True)


@pytest.mark.process
def test_a_part_that_is_none() -> None:
    command = [sys.executable, str(ROOT / "benchmarks" / "build.py"), "nothing"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "no such part: nothing; there are noop, hits" in done.stderr


def test_the_plain_project_has_no_hook(tmp_path: Path) -> None:
    hooked, plain = noop.write_projects(tmp_path)
    assert "aotbuild" in (hooked / "pyproject.toml").read_text()
    assert "aotbuild" not in (plain / "pyproject.toml").read_text()


def tasks(tmp_path: Path, *seconds: float) -> list[Task]:
    sizes = list(range(1, len(seconds) + 1))
    text = (
        "version: 1\npackage: proj\nfunctions:\n"
        f"  f: {{call: 'proj.m:f', args: [x: 'f32[n]'], dims: {{n: {sizes}}}}}\n"
    )
    root = write_project(tmp_path / "project", text, m="def f(x): return x")
    jobs = make_jobs(make_plan(load_manifest(root / "aot.yaml"), probe()).units)
    return [Task(*job, each) for job, each in zip(jobs, seconds, strict=True)]


class TestSimulation:
    NOTHING = Costs(start=0.0, unit=0.0, build=0.0)

    def test_one_worker_takes_the_sum(self, tmp_path: Path) -> None:
        many = tasks(tmp_path, 3.0, 1.0, 2.0)
        assert simulate(many, 1, self.NOTHING) == 6.0
        assert simulate(many, 1, Costs(start=5.0, unit=0.5, build=0.25)) == 5.0 + 7.5 + 0.25

    def test_the_longest_comes_first(self, tmp_path: Path) -> None:
        assert simulate(tasks(tmp_path, 1.0, 1.0, 2.0), 2, self.NOTHING) == 2.0

    def test_what_many_workers_cannot_shorten(self, tmp_path: Path) -> None:
        many = tasks(tmp_path, *[1.0] * 8)
        assert simulate(many, 256, self.NOTHING) == 1.0
        # The build's own process takes one result after the other.
        assert simulate(many, 256, Costs(start=0.0, unit=0.0, build=1.0)) == 9.0
