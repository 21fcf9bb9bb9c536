"""The demo says what went wrong, and ends with an error then."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any

import pytest
from support.processes import ROOT

from aotbuild.manifest import load_manifest

COUNTS = ("traced", "lowered", "compiled", "from cache")
COMPILED, CACHED, NOTHING = (2, 2, 2, 0), (2, 2, 0, 2), (0, 0, 0, 0)
EXPECTED = {
    "jit": COMPILED,
    "export": COMPILED,
    "cache": CACHED,
    "jax": NOTHING,
    "numpy": NOTHING,
}

Reports = dict[str, list[dict[str, Any]]]


@pytest.fixture
def lm(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    return importlib.import_module("demo_lm")


@pytest.fixture
def reports() -> Reports:
    """What processes report when all is well, one of each way."""
    return {
        way: [
            {
                "first": 1.0, "last": 2.0, "scores": [0.5, -1.0], "jax": way != "numpy",
                "counts": dict(zip(COUNTS, counts, strict=True)),
            }
        ]
        for way, counts in EXPECTED.items()
    }  # fmt: skip


def problems(lm: ModuleType, reports: Reports) -> list[str]:
    return list(lm.problems(reports))


def test_nothing_is_wrong(lm: ModuleType, reports: Reports) -> None:
    assert tuple(lm.LABELS) == tuple(EXPECTED)
    assert problems(lm, reports) == []


@pytest.mark.parametrize("scores", [[0.5, -1.1], [0.5], [0.5, float("nan")]])
def test_other_scores(lm: ModuleType, reports: Reports, scores: list[float]) -> None:
    reports["jax"][0]["scores"] = scores
    assert problems(lm, reports) == ["the scores of aotbuild differ from those of jax.jit"]


@pytest.mark.parametrize("way", ["jax", "numpy"])
@pytest.mark.parametrize("what", ["traced", "lowered", "compiled", "from cache"])
def test_something_was_compiled(lm: ModuleType, reports: Reports, way: str, what: str) -> None:
    reports[way][0]["counts"][what] = 1
    assert problems(lm, reports) == [f"1 {what} in a process with the precompiled wheel, not 0"]


def test_nothing_was_counted(lm: ModuleType, reports: Reports) -> None:
    reports["jit"][0]["counts"]["lowered"] = 0
    assert problems(lm, reports) == ["no lowered counted with jit: the counters are broken"]


def test_jax_was_imported_for_numpy(lm: ModuleType, reports: Reports) -> None:
    reports["numpy"][0]["jax"] = True
    (problem,) = problems(lm, reports)
    assert problem.startswith('jax was imported with arrays="numpy"')


def test_a_cold_cache(lm: ModuleType, reports: Reports) -> None:
    reports["cache"][0]["counts"]["compiled"] = 1
    assert problems(lm, reports) == ["jax's cache was not warm"]


def test_the_manifests_build_the_same_functions() -> None:
    project = ROOT / "example_project" / "lm"
    small, everywhere = (load_manifest(project / f"aot{name}.yaml") for name in ("", ".everywhere"))
    assert small.functions.keys() == everywhere.functions.keys()
    assert [small.functions[name].call for name in small.functions] == [
        everywhere.functions[name].call for name in small.functions
    ]
