"""The soak itself: it ends well in small, and says what is wrong."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from soak import soak

pytestmark = pytest.mark.process


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, soak.__file__, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return soak.build_package(tmp_path_factory.mktemp("soak"))


@pytest.mark.parametrize("stage", [name for name in soak.NAMES if name.endswith("numpy")])
def test_a_little_of_each_stage(package: Path, stage: str) -> None:
    done = run("--scale", "0.001", "--stage", stage, "--package", str(package))
    assert (done.returncode, done.stderr) == (0, "")
    assert "calls" in done.stdout or "loads" in done.stdout


def test_wrong_numbers(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = [*soak.EXPECTED[:4], [soak.X, soak.X], soak.EXPECTED[5]]
    monkeypatch.setattr(soak, "EXPECTED", wrong)
    with pytest.raises(SystemExit, match="call 4: step: wrong numbers"):
        soak.calls(package, "numpy", 1e-5)


def test_memory_that_grows(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = iter([100_000_000, 101_000_000, 101_900_000, 102_100_001])
    monkeypatch.setattr(soak, "resident", lambda: next(sizes))
    memory = soak.Memory(100)
    for done in range(1, 40):
        memory.after(done)
    with pytest.raises(SystemExit, match=r"after 40: memory grows: 100\.0 MB after a tenth"):
        memory.after(40)
