"""The state of each unit while building, and the lines about it."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from aotbuild.build import unit_progress
from aotbuild.build.events import Event, UnitBusy, UnitDone, UnitStarted
from aotbuild.build.pack import Origins, Package
from aotbuild.build.plan import BuildUnit
from aotbuild.build.unit_progress import (
    Tracker,
    summary,
    tracked,
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


def to_stderr(line: str) -> None:
    print(line, file=sys.stderr)


def failed(unit: BuildUnit) -> UnitDone:
    return UnitDone(unit, failure=UnitFailure(str(unit), "trace", "no"))


@pytest.fixture
def clock() -> Iterator[float]:
    return map(float, count(100))


def test_states_and_times(units: list[BuildUnit], clock: Iterator[float]) -> None:
    tracker = Tracker(units, clock=lambda: next(clock))
    assert [state.state for state in tracker.states] == ["waiting"] * 3
    tracker(UnitStarted(units[0]))
    tracker(failed(units[1]))
    tracker(UnitDone(units[0], record=record(5000)))
    assert [state.state for state in tracker.states] == ["done", "failed", "waiting"]
    assert [state.seconds for state in tracker.states] == [2.0, None, None]
    assert tracker.states[0].size == 5000


def test_units_that_python_takes_for_equal_stay_apart(units: list[BuildUnit]) -> None:
    assert units[0] == units[1]
    assert len(Tracker(units).states) == 3


def test_a_pipe_gets_a_line_for_each_finished_unit(
    units: list[BuildUnit], capsys: pytest.CaptureFixture[str]
) -> None:
    with tracked(units, to_stderr) as tracker:
        tracker(UnitDone(units[0], record=record(5000)))
        tracker(failed(units[1]))
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == (
        "[1/3] done: f(k=1) for cpu:x86-64-v3:1  (5 kB)\n"
        "[2/3] failed: f(k=True) for cpu:x86-64-v3:1\n"
    )


def test_a_line_says_what_the_store_had(units: list[BuildUnit]) -> None:
    lines: list[str] = []
    with tracked(units, lines.append) as tracker:
        tracker(UnitDone(units[0], record=record(5000), stored=True))
    assert lines == ["[1/3] done: f(k=1) for cpu:x86-64-v3:1  (5 kB, from the store)"]


def test_silence_is_explained(units: list[BuildUnit], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unit_progress, "FIRST_REMINDER", 0.01)
    lines: list[str] = []
    said = threading.Event()

    def say(line: str) -> None:
        lines.append(line)
        said.set()

    def next_line(event: Event) -> str:
        tracker(event)
        # What was said before the event may come in between.
        while True:
            said.clear()
            assert said.wait(10)
            if lines[-1].partition(" ")[0] not in seen:
                seen.append(lines[-1].partition(" ")[0])
                return lines[-1]

    seen: list[str] = []
    with tracked(units, say) as tracker:
        assert next_line(UnitBusy(units[0], "importing proj.code")) == "importing proj.code (0 s)"
        tracker(UnitBusy(units[1], "importing proj.code"))
        found = next_line(UnitBusy(units[0], "tracing f(k=1)"))
        assert found == "tracing f(k=1), and 1 more (0 s)"
        assert next_line(UnitStarted(units[0])).startswith("compiling f(k=1) for cpu")
        tracker(UnitDone(units[0], record=record(5000)))
        tracker(UnitDone(units[1], record=record(5000)))
    assert "[2/3] done" in lines[-1]


def lines_of(origins: Origins) -> list[str]:
    return [*unit_progress.origins(Package(Path("/nowhere"), None, (), origins=origins))]  # type: ignore[arg-type]


def test_where_units_came_from(units: list[BuildUnit]) -> None:
    assert lines_of(Origins()) == []
    assert lines_of(Origins(compiled=7)) == ["7 units: 7 compiled"]
    stored = UnitDone(units[0], record=record(1), stored=True)
    done = [
        UnitDone(units[0], record=record(1)),
        stored,
        stored,
    ]
    assert lines_of(Origins.of(done)) == ["3 units: 2 from the store, 1 compiled"]
    recalled = Origins(stored=2, recalled=True)
    assert lines_of(recalled) == ["2 units: 2 from the store, as nothing has changed"]


def test_the_last_line() -> None:
    package = Package(Path("/nowhere"), plan=None, records=(record(1), record(2)))  # type: ignore[arg-type]
    assert summary(package, 12.34) == "2 executables, 0 B with the index, in 12.3 s"


def test_a_unit_that_feedback_adds_comes_last(
    units: list[BuildUnit], capsys: pytest.CaptureFixture[str]
) -> None:
    with tracked(units, to_stderr) as tracker:
        tracker(UnitDone(units[0], record=record(5000)))
        tracker(UnitDone(units[0].after_feedback(), record=record(4000)))
        assert [state.state for state in tracker.states] == ["done", "waiting", "waiting", "done"]
    assert capsys.readouterr().err == (
        "[1/3] done: f(k=1) for cpu:x86-64-v3:1  (5 kB)\n"
        "[2/4] done: f(k=1) after feedback for cpu:x86-64-v3:1  (4 kB)\n"
    )
