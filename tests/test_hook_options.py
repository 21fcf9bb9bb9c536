"""The hook's table in pyproject.toml: what is read, and how it is refused."""

from __future__ import annotations

from typing import Any

import pytest

from aotbuild.errors import PlanError
from hatch_aotbuild.options import Options, read_options

TABLE = "[tool.hatch.build.targets.wheel.hooks.aotbuild]"


@pytest.fixture(autouse=True)
def _no_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AOTBUILD_EDITABLE", raising=False)


def test_defaults_and_values() -> None:
    assert read_options({}) == Options("aot.yaml", "build")
    table = {"manifest": "a/b.yaml", "editable": "defer", "dependencies": []}
    assert read_options(table) == Options("a/b.yaml", "defer")


def test_the_variable_overrides_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AOTBUILD_EDITABLE", "defer")
    assert read_options({"editable": "build"}).editable == "defer"


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"manifst": "a"}, "unknown key 'manifst'; known: manifest, editable"),
        ({"manifest": 3}, "manifest: expected a path, found 3"),
        ({"editable": "no"}, "editable: expected one of build, defer, found 'no'"),
    ],
)
def test_refused(table: dict[str, Any], message: str) -> None:
    with pytest.raises(PlanError) as caught:
        read_options(table)
    assert str(caught.value) == f"{TABLE}: {message}"
