"""What a traced function reads, and what it is told instead."""

from __future__ import annotations

import datetime as dt
import logging
import os
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path
from time import monotonic as now
from typing import Any

import numpy as np
import pytest

from aotbuild.worker.purity.compare import Difference
from aotbuild.worker.purity.findings import Findings
from aotbuild.worker.purity.reads import Read, watched
from aotbuild.worker.purity.snapshot import Snapshot

DAY = 86_400
later = now


def words(read: Callable[[], Any]) -> list[str]:
    """Return what a function reads, in words."""
    with watched(shifted=False) as watch:
        read()
    for found in watch.reads:
        assert not found.line or __file__ in found.line
    return [found.words for found in watch.reads]


CLOCKS: dict[str, Callable[[], Any]] = {
    "time.time": lambda: time.time(),
    "time.perf_counter_ns": lambda: time.perf_counter_ns() / 1e9,
    "time.monotonic": lambda: now(),
    "time.localtime": lambda: time.mktime(time.localtime()),
    "time.ctime": lambda: time.mktime(time.strptime(time.ctime())),
    "time.strftime": lambda: time.mktime(time.strptime(time.strftime("%Y %j"), "%Y %j")),
    "datetime.datetime.now": lambda: dt.datetime.now(dt.UTC).timestamp(),
}


@pytest.mark.parametrize("today", [dt.date.today, dt.datetime.today, lambda: dt.datetime.today()])
def test_today_reads_a_clock(today: Callable[[], Any]) -> None:
    assert words(today) == ["the clock `time.time` was read"]
    before = today().toordinal()
    with watched(shifted=True):
        assert today().toordinal() - before in (400, 401)


@pytest.mark.parametrize("name", CLOCKS)
def test_clocks(name: str) -> None:
    read = CLOCKS[name]
    assert words(read) == [f"the clock `{name}` was read"]
    before = read()
    with watched(shifted=True):
        shifted = read()
    assert 399 * DAY < shifted - before < 402 * DAY
    assert read() - before < DAY


def test_a_time_that_is_given_is_no_clock() -> None:
    def read() -> None:
        time.strftime("%Y", time.gmtime(0))
        moment = dt.datetime(2020, 1, 2, tzinfo=dt.UTC)
        assert isinstance(moment, dt.datetime)
        assert issubclass(dt.datetime, dt.date)
        assert dt.datetime.fromtimestamp(0, dt.UTC) < moment

    assert words(read) == []


def test_random_numbers() -> None:
    states = random.getstate(), np.random.get_state()[1].tolist()
    assert words(random.random) == ["random numbers were drawn from `random`"]
    assert words(lambda: np.random.rand(2)) == ["random numbers were drawn from `numpy.random`"]
    assert words(np.random.mtrand._rand.normal) == ["random numbers were drawn from `numpy.random`"]
    assert words(lambda: np.random.default_rng(1).normal()) == []
    assert words(lambda: np.random.default_rng()) == ["random bytes were drawn from `os.urandom`"]
    random.setstate(states[0])
    drawn = []
    for shifted in (False, True):
        random.seed(3)
        with watched(shifted=shifted):
            drawn.append(random.random())
    random.seed(3)
    assert drawn[0] == random.random() != drawn[1]


def test_files(tmp_path: Path) -> None:
    path = tmp_path / "table.npy"
    np.save(path, np.ones(2))
    read = ["the file `table.npy` was read"]
    assert words(lambda: np.load(path)) == read
    assert words(lambda: path.read_bytes()) == read
    assert words(lambda: os.close(os.open(path, os.O_RDONLY))) == read
    assert words(lambda: (tmp_path / "log").write_text("written")) == []
    assert words(lambda: Path(__file__).read_text()) == []
    assert words(lambda: Path("/proc/self/stat").read_text()) == []
    assert words(lambda: sys.audit("open", "an event of somebody's")) == []


def test_what_logging_reads_does_not_count() -> None:
    assert words(lambda: logging.getLogger("purity").warning("logged")) == []


def test_a_variable_that_changes_meanwhile_keeps_its_value() -> None:
    global later
    before = later
    try:
        with watched(shifted=True):
            assert later is not before
            later = None  # type: ignore[assignment]
        assert later is None
        with watched(shifted=True):
            assert later is None
    finally:
        later = before


def test_what_a_library_reads_is_named_last() -> None:
    library = Read("a clock was read", "/venv/lib/site-packages/log.py:3 in log")
    own = Read("a file was read", "/proj/model.py:7 in table", is_file=True)
    findings = Findings("proj.model:f", None, [Snapshot()], [{library: None}, {own: None}])
    lines = findings.differs(Difference("another input")).splitlines()
    assert lines[-3:-1] == [f"  {own}", f"  {library}, perhaps without effect"]
