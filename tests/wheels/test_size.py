"""Wheels that are too big for PyPI."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from aotbuild.format.layout import PYPI_LIMIT
from hatch_aotbuild.plugin import AotBuildHook


@pytest.mark.parametrize(("size", "count"), [(PYPI_LIMIT, 0), (PYPI_LIMIT + 1, 1)])
def test_the_hook_warns_of_the_finished_wheel(size: int, count: int, tmp_path: Path) -> None:
    warnings: list[str] = []

    class App:
        display_warning = staticmethod(warnings.append)
        display_info = staticmethod(lambda _: None)

    wheel = tmp_path / "proj-1.0-py3-none-any.whl"
    with wheel.open("wb") as file:
        file.truncate(size)
    app: Any = App()
    nothing: Any = None
    metadata: Any = SimpleNamespace(hatch=SimpleNamespace(config={}))
    hook = AotBuildHook(str(tmp_path), {}, nothing, metadata, str(tmp_path), "wheel", app)
    hook.finalize("standard", {}, str(wheel))
    assert [w.startswith(f"aotbuild: {wheel.name} has 100 MB") for w in warnings] == [True] * count
