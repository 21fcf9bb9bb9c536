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
    monkeypatch.delenv("AOTBUILD_MANIFEST", raising=False)
    monkeypatch.delenv("AOTBUILD_ON_FAILURE", raising=False)


def test_defaults_and_values() -> None:
    assert read_options({}) == Options("aot.yaml", "build", "error")
    table = {"manifest": "a/b.yaml", "editable": "defer", "dependencies": []}
    assert read_options(table) == Options("a/b.yaml", "defer")
    assert read_options({"on-failure": "skip"}) == Options(on_failure="skip")


def test_variables_override_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AOTBUILD_EDITABLE", "defer")
    monkeypatch.setenv("AOTBUILD_MANIFEST", "other.yaml")
    monkeypatch.setenv("AOTBUILD_ON_FAILURE", "skip")
    table = {"editable": "build", "manifest": "aot.yaml", "on-failure": "error"}
    assert read_options(table) == Options("other.yaml", "defer", "skip")


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"manifst": "a"}, "unknown key 'manifst'; known: manifest, editable, on-failure"),
        (
            {"on_failure": "skip"},
            "unknown key 'on_failure'; known: manifest, editable, on-failure",
        ),
        ({"manifest": 3}, "manifest: expected a path in UTF-8, found 3"),
        ({"editable": "no"}, "editable: expected one of build, defer, found 'no'"),
        ({"on-failure": "no"}, "on-failure: expected one of error, skip, found 'no'"),
    ],
)
def test_refused(table: dict[str, Any], message: str) -> None:
    with pytest.raises(PlanError) as caught:
        read_options(table)
    assert str(caught.value) == f"{TABLE}: {message}"
