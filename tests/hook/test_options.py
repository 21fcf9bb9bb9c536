"""The hook's table in pyproject.toml: what is read, and how it is refused."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from aotbuild.errors import PlanError
from hatch_aotbuild.compiling import check_sbom
from hatch_aotbuild.options import Options, read_options

TABLE = "[tool.hatch.build.targets.wheel.hooks.aotbuild]"


@pytest.fixture(autouse=True)
def _no_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AOTBUILD_EDITABLE", raising=False)
    monkeypatch.delenv("AOTBUILD_MANIFEST", raising=False)
    monkeypatch.delenv("AOTBUILD_ON_FAILURE", raising=False)


def test_defaults_and_values() -> None:
    assert read_options({}) == Options("aot.yaml", "build", "error", sbom=False)
    table = {"manifest": "a/b.yaml", "editable": "defer", "sbom": True, "dependencies": []}
    assert read_options(table) == Options("a/b.yaml", "defer", sbom=True)
    assert read_options({"on-failure": "skip"}) == Options(on_failure="skip")


def test_an_sbom_that_cannot_be_made_stops_the_build(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)
    check_sbom()
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "noon")
    with pytest.raises(PlanError, match="SOURCE_DATE_EPOCH: expected whole seconds"):
        check_sbom()
    monkeypatch.setitem(sys.modules, "cyclonedx", None)
    with pytest.raises(PlanError, match=r"sbom = true: the SBOM needs a library\n"):
        check_sbom()


def test_variables_override_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AOTBUILD_EDITABLE", "defer")
    monkeypatch.setenv("AOTBUILD_MANIFEST", "other.yaml")
    monkeypatch.setenv("AOTBUILD_ON_FAILURE", "skip")
    table = {"editable": "build", "manifest": "aot.yaml", "on-failure": "error"}
    assert read_options(table) == Options("other.yaml", "defer", "skip")


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"manifst": "a"}, "unknown key 'manifst'; known: manifest, editable, on-failure, sbom"),
        (
            {"on_failure": "skip"},
            "unknown key 'on_failure'; known: manifest, editable, on-failure, sbom",
        ),
        ({"manifest": 3}, "manifest: expected a path in UTF-8, found 3"),
        ({"editable": "no"}, "editable: expected one of build, defer, found 'no'"),
        ({"on-failure": "no"}, "on-failure: expected one of error, skip, found 'no'"),
        ({"sbom": "yes"}, "sbom: expected true or false, found 'yes'"),
    ],
)
def test_refused(table: dict[str, Any], message: str) -> None:
    with pytest.raises(PlanError) as caught:
        read_options(table)
    assert str(caught.value) == f"{TABLE}: {message}"
