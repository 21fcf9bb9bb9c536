"""Each part of `benchmarks/build.py`, in a small size; nothing is timed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.processes import ROOT

from benchmarks.bars import all_bars
from benchmarks.building import noop
from benchmarks.building.limits import LIMITS

PARTS = ("noop",)


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


def test_the_plain_project_has_no_hook(tmp_path: Path) -> None:
    hooked, plain = noop.write_projects(tmp_path)
    assert "aotbuild" in (hooked / "pyproject.toml").read_text()
    assert "aotbuild" not in (plain / "pyproject.toml").read_text()
