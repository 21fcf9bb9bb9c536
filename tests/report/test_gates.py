"""Gates: how they are written, when they fail, and that noise does not fail them."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import pytest
from support.reports import facts_of, make_function, make_record

from aotbuild.report.facts import PackageFacts, total_size
from aotbuild.report.gates import (
    Judged,
    Limit,
    beyond_chance,
    is_slower,
    judge_cold_start,
    judge_coverage,
    judge_size,
    parse_limits,
)
from aotbuild.report.words import bytes_text

SIZE = Limit("size", "+5%", 5.0)
COVERAGE = Limit("coverage", "0", 0.0)
COLD_START = Limit("cold-start", "+10%", 10.0)
RUNS = 20


def package(root: Path, *records: dict[str, Any]) -> PackageFacts:
    return facts_of(root, [make_function()], [make_record(**fields) for fields in records])


def lost(old: PackageFacts, new: PackageFacts, most: int = 0) -> Judged:
    return judge_coverage(Limit("coverage", str(most), most), old, new)


def test_gates_are_parsed() -> None:
    assert parse_limits("size=+5%,coverage=0, cold-start = +12.5%") == (
        SIZE,
        COVERAGE,
        Limit("cold-start", "+12.5%", 12.5),
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected gates among size, coverage, cold-start, found ''"),
        (
            "siz=+5%",
            "expected gates among size, coverage, cold-start, found 'siz' (did you mean 's",
        ),
        ("size=5%", "size: expected +N%, as +5%, found '5%'"),
        ("size=+5", "size: expected +N%, as +5%, found '+5'"),
        ("size=-5%", "size: expected +N%, as +5%, found '-5%'"),
        ("size=+nan%", "size: expected +N%, as +5%, found '+nan%'"),
        ("coverage=+5%", "coverage: expected a whole number, as 0, found '+5%'"),
        ("cold-start", "cold-start: expected +N%, as +10%, found ''"),
        ("size=+5%,size=+6%", "size is there twice"),
    ],
)
def test_what_is_no_gate(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        parse_limits(text)


def test_size(tmp_path: Path) -> None:
    old, more, much = (
        package(tmp_path / str(size), {"data": b"x" * size}) for size in (100_000, 104_000, 110_000)
    )
    assert judge_size(SIZE, old, more).row[-1] == "passed"
    judged = judge_size(SIZE, old, much)
    before, after, change = bytes_text(total_size(old)), bytes_text(total_size(much)), "+9.9%"
    assert judged.reason == f"size: {before} → {after} ({change}), more than +5%"
    assert judged.row == ("size", "+5%", before, after, change, "failed")
    assert judge_size(SIZE, much, old).reason is None


def test_coverage_counts_what_is_lost(tmp_path: Path) -> None:
    v3, v4, portable = "cpu:x86-64-v3:1", "cpu:x86-64-v4:1", "portable:cpu:1"
    old = package(tmp_path / "old", {"target": v3}, {"target": portable}, {"batch": 8})
    new = package(tmp_path / "new", {"target": v3}, {"target": v4}, {"target": portable})
    judged = lost(old, new)
    assert judged.reason == "coverage: 1 executable lost, more than 0"
    assert judged.details == (f"lost: f(batch=8) for {v3}",)
    assert judged.row == ("coverage", "0", "3", "3", "-1 +1", "failed")
    judged = lost(old, new, 1)
    assert (judged.reason, judged.details) == (None, (f"lost: f(batch=8) for {v3}",))
    assert lost(old, old).row == ("coverage", "0", "3", "3", "-0 +0", "passed")


def test_a_new_jaxlib_is_no_loss(tmp_path: Path) -> None:
    old = package(tmp_path / "old", {})
    new = package(tmp_path / "new", {"jaxlib": "0.12.0"})
    assert lost(old, new).reason is None
    both = package(tmp_path / "both", {}, {"jaxlib": "0.12.0"})
    assert lost(both, new).details == ("lost: f(batch=1) for cpu:x86-64-v3:1 with jaxlib 0.10.2",)


def test_many_losses_are_cut(tmp_path: Path) -> None:
    old = package(tmp_path / "old", *({"batch": size} for size in range(1, 31)))
    judged = lost(old, package(tmp_path / "new"))
    assert (len(judged.details), judged.details[-1]) == (21, "and 10 more")


def test_what_cannot_be_measured_fails() -> None:
    judged = judge_cold_start(COLD_START, {}, {"f": "isa: expected x86-64-v4"})
    assert judged.reason
    assert judged.reason.startswith("cold-start: no executable that both packages have runs here")
    assert judged.details == ("f: not measured: isa: expected x86-64-v4",)
    assert judged.row == ("cold-start", "+10%", "-", "-", "not measured", "failed")
    assert not is_slower(COLD_START, {})


def test_a_slower_package_fails() -> None:
    times = {"f": ([10.0] * RUNS, [12.0] * RUNS), "g": ([5.0] * RUNS, [5.0] * RUNS)}
    judged = judge_cold_start(COLD_START, times, {})
    assert (
        judged.reason == "cold-start: 15.0 ms → 17.0 ms (+13.3%), more than +10% in 20 of 20 runs"
    )
    assert judged.details == ("f: 10.0 ms → 12.0 ms", "g: 5.0 ms → 5.0 ms")
    assert (judged.old, judged.new) == (15.0, 17.0)
    assert judge_cold_start(Limit("cold-start", "+14%", 14.0), times, {}).reason is None


def test_runs_that_chance_explains_do_not_fail() -> None:
    needed = beyond_chance(RUNS)
    assert (needed, beyond_chance(1), beyond_chance(7)) == (16, 2, 7)
    for slow, fails in ((needed, True), (needed - 1, False)):
        new = [20.0] * slow + [10.0] * (RUNS - slow)
        times = {"f": ([10.0] * RUNS, new)}
        assert is_slower(COLD_START, times)
        assert bool(judge_cold_start(COLD_START, times, {}).reason) is fails


@pytest.mark.parametrize("noise", [0.02, 0.3, 1.0])
def test_noise_fails_equal_packages_once_in_a_hundred_times(noise: float) -> None:
    """With +0%: the same package twice, on machines that are often busy with something else."""
    limit, made = Limit("cold-start", "+0%", 0.0), random.Random(0)

    def times() -> list[float]:
        return [10.0 * (1 + made.lognormvariate(0, 1) * noise) for _ in range(RUNS)]

    judged = [judge_cold_start(limit, {"f": (times(), times())}, {}) for _ in range(1000)]
    assert sum(bool(each.reason) for each in judged) <= 10
