"""The hook's table in pyproject.toml: what is read, and how it is refused."""

from __future__ import annotations

from typing import Any

import pytest

from aotbuild.errors import PlanError
from aotbuild.toolchains.project import BUILD_TABLE
from hatch_aotbuild.plugin import MANIFEST, read_manifest


def test_the_manifest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(MANIFEST, raising=False)
    assert read_manifest({}) == "aot.yaml"
    assert read_manifest({"manifest": "a/b.yaml", "dependencies": []}) == "a/b.yaml"
    monkeypatch.setenv(MANIFEST, "other.yaml")
    assert read_manifest({"manifest": "a/b.yaml"}) == "other.yaml"


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"manifst": "a"}, "unknown key 'manifst'; known: manifest"),
        ({"manifest": 3}, "manifest: expected a path, found 3"),
    ],
)
def test_refused(table: dict[str, Any], message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(MANIFEST, raising=False)
    with pytest.raises(PlanError) as caught:
        read_manifest(table)
    assert str(caught.value) == f"[{BUILD_TABLE}]: {message}"
