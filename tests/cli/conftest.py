"""What tests of commands share."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def store_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store, the current one; nothing is in it. The test runs beside it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AOTBUILD_STORE", str(tmp_path / "store"))
    return tmp_path / "store"
