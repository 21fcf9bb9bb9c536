"""What the tests of watching share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aotbuild.record.recorder import Recorder
from aotbuild.record.recording import Recording


@pytest.fixture
def recorded(tmp_path: Path) -> Callable[[Callable[[], Any]], Recording]:
    """A function that calls another one while this process is watched."""

    def record(work: Callable[[], Any]) -> Recording:
        with Recorder(tmp_path / "calls.jsonl") as recorder:
            work()
        return recorder.read()

    return record
