"""What the tests of watching share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aotbuild.record import Recorder
from aotbuild.record.call_log import CallLog, read_call_log


@pytest.fixture
def recorded(tmp_path: Path) -> Callable[[Callable[[], Any]], CallLog]:
    """A function that calls another one while this process is watched."""

    def record(work: Callable[[], Any]) -> CallLog:
        path = tmp_path / "calls.jsonl"
        with Recorder(path):
            work()
        return read_call_log(path) if path.exists() else CallLog()

    return record
