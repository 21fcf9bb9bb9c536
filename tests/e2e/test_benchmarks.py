"""The benchmark harness: its registry, and its processes; nothing is timed here."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import venvs
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
