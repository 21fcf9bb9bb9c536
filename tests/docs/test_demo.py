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


def test_other_scores(lm: ModuleType, reports: Reports) -> None:
    reports["jax"][0]["scores"] = [0.5, -1.1]
    assert problems(lm, reports) == ["the scores of aotbuild differ from those of jax.jit"]


def test_something_was_compiled(lm: ModuleType, reports: Reports) -> None:
    reports["numpy"][0]["counts"]["lowered"] = 1
    assert problems(lm, reports) == ["1 lowered in a process with the precompiled wheel, not 0"]


def test_nothing_was_counted(lm: ModuleType, reports: Reports) -> None:
    reports["jit"][0]["counts"]["lowered"] = 0
    assert problems(lm, reports) == ["no lowered counted with jit: the counters are broken"]


def test_the_manifests_build_the_same_functions() -> None:
    project = ROOT / "example_project" / "lm"
    small, everywhere = (load_manifest(project / f"aot{name}.yaml") for name in ("", ".everywhere"))
    assert small.functions.keys() == everywhere.functions.keys()
    assert [small.functions[name].call for name in small.functions] == [
        everywhere.functions[name].call for name in small.functions
    ]
