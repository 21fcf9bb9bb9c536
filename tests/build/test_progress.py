"""The state of each unit while building, and the lines about it."""

from __future__ import annotations

import time
from itertools import count

import pytest

from aotbuild.build import progress
from aotbuild.build.plan import BuildUnit
from aotbuild.build.progress import (
    Tracker,
    UnitBusy,
    UnitCompiled,
    UnitDone,
    UnitStarted,
    reminders,
)
from aotbuild.errors import UnitFailure
from aotbuild.format.record import Blob, Calling, Record, Requirements
from aotbuild.format.signature import Signature
from aotbuild.format.target import Target
from aotbuild.manifest import parse_manifest
from aotbuild.toolchains.toolchain import Toolchain

TEXT = """\
version: 1
package: proj
functions:
  f: {call: "proj.code:f", args: [{x: "f32[4]"}], static: {k: [1, true, 3]}}
"""
TARGET = Target("cpu", "x86-64-v3")


@pytest.fixture
def units() -> list[BuildUnit]:
    ((name, function),) = parse_manifest(TEXT).functions.items()
    toolchain = Toolchain("1", "1", "3.11.0")
    values = function.static["k"]
    return [BuildUnit(name, function, (), (("k", value),), TARGET, toolchain) for value in values]


def record(size: int) -> Record:
    return Record(
        function="f",
        signature=Signature(["none"], ()),
        target=TARGET,
        blob=Blob("pjrt", "0" * 64, size),
        requires=Requirements(("cpu",)),
        calling=Calling("f", (), (), (), (), (), (), ["none"]),
    )


def failed(unit: BuildUnit) -> UnitDone:
    return UnitDone(unit, failure=UnitFailure(str(unit), "trace", "no"))


def test_each_finished_unit_has_a_line(units: list[BuildUnit]) -> None:
    lines: list[str] = []
    tracker = Tracker(units, lines.append)
    tracker(UnitDone(units[0], record=record(5000), stored=True))
    tracker(failed(units[1]))
    # A unit that `feedback:` adds comes last.
    tracker(UnitDone(units[0].after_feedback(), record=record(4000)))
    assert [state.state for state in tracker.states] == ["done", "failed", "waiting", "done"]
    assert lines == [
        "[1/3] done: f(k=1) for cpu:x86-64-v3:1  (5 kB, from the store)",
        "[2/3] failed: f(k=True) for cpu:x86-64-v3:1",
        "[3/4] done: f(k=1) after feedback for cpu:x86-64-v3:1  (4 kB)",
    ]


def test_each_step_has_its_times(units: list[BuildUnit]) -> None:
    now = count()
    tracker = Tracker(units[:1], clock=lambda: float(next(now)))
    (unit,) = units[:1]
    tracker(UnitBusy(unit, "tracing f(k=1)"))
    tracker(UnitBusy(unit, ""))
    tracker(UnitStarted(unit))
    tracker(UnitCompiled(unit))
    assert tracker.states[0].state == "compiled"
    tracker(UnitBusy(unit, "computing golden outputs"))
    tracker(failed(unit))
    assert [(step.doing, step.start, step.end) for step in tracker.states[0].steps] == [
        ("tracing f(k=1)", 1, 2),
        ("compiling f(k=1) for cpu:x86-64-v3:1", 3, 4),
        ("computing golden outputs", 5, 6),
    ]


def test_silence_is_explained(units: list[BuildUnit], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "FIRST_REMINDER", 0.01)
    lines: list[str] = []
    now = count()
    tracker = Tracker(units, lines.append, lambda: float(next(now)))
    tracker(UnitStarted(units[1]))
    tracker(UnitBusy(units[0], "tracing f(k=1)"))
    with reminders(tracker, lines.append):
        while not lines:
            time.sleep(0.01)
    # The one that began first, not the first of the plan.
    compiling = "compiling f(k=True) for cpu:x86-64-v3:1 (2 s)"
    assert lines[0] == f"{compiling}, and 1 more; 3 of 3 units left"
