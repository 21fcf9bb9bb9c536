"""`aotbuild diff --gate` and `--markdown`: the exit code, the document, and what is measured."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from support.cli import run
from support.reports import make_function, make_record, write_package

from aotbuild.cli.exit_codes import GATE
from aotbuild.verify import cold_start
from aotbuild.verify.cold_start import Chosen, Measured

GATES = "size=+5%,coverage=0"


@pytest.fixture
def old(tmp_path: Path) -> Path:
    records = [make_record(data=b"x" * 10_000), make_record(batch=8)]
    return write_package(tmp_path / "old", [make_function()], records)


@pytest.fixture
def new(tmp_path: Path) -> Path:
    records = [make_record(data=b"x" * 20_000)]
    return write_package(tmp_path / "new", [make_function()], records)


def slow_down(monkeypatch: pytest.MonkeyPatch, *answers: float) -> list[int]:
    """Let the new package take so many times as long in each measurement; return their runs."""
    asked: list[int] = []

    def measure(chosen: Chosen, runs: int) -> Measured:
        asked.append(runs)
        times = [10.0] * runs, [10.0 * answers[len(asked) - 1]] * runs
        return Measured({"f": times}, chosen.skipped)

    chosen = Chosen({}, {"g": "it calls back into Python, which is not run"})
    monkeypatch.setattr(cold_start, "choose", lambda *_: chosen)
    monkeypatch.setattr(cold_start, "measure", measure)
    return asked


def test_gates_that_fail(old: Path, new: Path) -> None:
    result = run("diff", old, new, "--gate", GATES, code=GATE)
    assert GATE == 13
    table, reasons, rest = result.stdout.split("\n\n", 2)
    assert [line.split()[0] for line in table.splitlines()] == ["GATE", "size", "coverage"]
    size, *others = reasons.splitlines()
    assert re.fullmatch(r"size: 1\S+ kB → 2\S+ kB \(\+7\d\.\d%\), more than \+5%", size)
    assert others == [
        "coverage: 1 executable lost, more than 0",
        "lost: f(batch=8) for cpu:x86-64-v3:1",
    ]
    assert rest == run("diff", old, new).stdout
    assert run("diff", old, new, "--exit-code", "--gate", GATES, code=GATE)


def test_gates_that_pass(old: Path, new: Path) -> None:
    run("diff", old, old, "--gate", GATES)
    run("diff", old, new, "--gate", "size=+100%,coverage=1")
    run("diff", old, new, "--gate", "size=+100%", "--exit-code", code=1)


def test_the_document(old: Path, new: Path) -> None:
    document = json.loads(run("diff", old, new, "--gate", GATES, "--json", code=GATE).stdout)
    assert (document["version"], document["error"], document["different"]) == (1, None, True)
    size, coverage = document["gates"]
    assert coverage == {
        "gate": "coverage", "limit": "0", "passed": False, "old": 2, "new": 1,
        "reason": "coverage: 1 executable lost, more than 0",
        "details": ["lost: f(batch=8) for cpu:x86-64-v3:1"],
    }  # fmt: skip
    assert size["new"] > size["old"] > 10_000
    assert json.loads(run("diff", old, new, "--json").stdout)["gates"] == []


def test_wrong_usage(old: Path, new: Path) -> None:
    result = run("diff", old, new, "--gate", "size=5%", code=2)
    assert "argument --gate: size: expected +N%, as +5%, found '5%'\n" in result.stderr
    result = run("diff", old, new, "--json", "--markdown", code=2)
    assert "--json and --markdown exclude each other" in result.stderr


def test_markdown(old: Path, new: Path) -> None:
    result = run("diff", old, new, "--gate", GATES, "--markdown", code=GATE)
    mark, title, empty, headers, *rest = result.stdout.splitlines()
    assert (mark, empty) == ("<!-- aotbuild diff -->", "")
    assert title == "### pack: old/_aot → new/_aot"
    assert headers == "| gate | limit | old | new | change | result |"
    assert "| coverage | 0 | 2 | 1 | -1 +0 | failed |" in rest
    assert "- signature f(batch=8)" in rest
    assert "| executable | what | old | new | change |" in rest
    assert run("diff", old, old, "--markdown").stdout.endswith("```text\nno difference\n```\n")


def test_hostile_names_stay_text_in_markdown(tmp_path: Path) -> None:
    evil = "f`|<img src=x>@all\n```\n# [x](http://e.org)\x1b"
    old = write_package(tmp_path / "old", [make_function(evil)], [make_record(evil, label=evil)])
    record = make_record(evil, label=evil, data=b"other")
    new = write_package(tmp_path / "new", [make_function(evil)], [record])
    text = run("diff", old, new, "--markdown").stdout
    row = next(line for line in text.splitlines() if line.startswith("|") and "img" in line)
    # One cell of code: no backtick ends it, no bar splits it, no line leaves it.
    assert row.startswith("| `f'\\|<img src=x>@all\\n'''")
    assert row.count("`") == 2
    assert "\x1b" not in text


def test_a_package_that_starts_more_slowly(
    old: Path, new: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = slow_down(monkeypatch, 1.5, 1.4)
    result = run("diff", old, new, "--gate", "cold-start=+10%", code=GATE)
    assert runs == [6, 20]
    assert "cold-start  +10%   10.0 ms  14.0 ms  +40.0%  failed\n" in result.stdout
    assert "(+40.0%), more than +10% in 20 of 20 runs\n" in result.stdout
    assert "g: not measured: it calls back into Python, which is not run\n" in result.stdout


def test_what_was_slow_once_passes(old: Path, new: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = slow_down(monkeypatch, 1.5, 1.05)
    run("diff", old, new, "--gate", "cold-start=+10%")
    assert runs == [6, 20]


def test_what_is_fast_is_not_measured_for_long(
    old: Path, new: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = slow_down(monkeypatch, 1.05)
    result = run("diff", old, new, "--gate", "cold-start=+10%", "--json")
    assert runs == [6]
    (gate,) = json.loads(result.stdout)["gates"]
    assert (gate["old"], gate["new"], gate["passed"]) == (10.0, 10.5, True)


def test_packages_are_only_run_for_cold_start(
    old: Path, new: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        raise AssertionError

    monkeypatch.setattr(cold_start, "choose", refuse)
    run("diff", old, new, "--gate", GATES, code=GATE)
