"""Preloading: what is loaded, what is demanded, and a failure that stops no other."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.packages import build, write

import aotbuild
from aotbuild.errors import DamagedBlob, NoExecutable

X = np.arange(4, dtype=np.float32)


def built() -> list[Any]:
    return [build("f", lambda x: x * 2, {"x": X}), build("g", lambda x: x * 3, {"x": X})]


@pytest.mark.parametrize("arrays", ["jax", "numpy"])
def test_calls_load_nothing_afterwards(tmp_path: Path, arrays: str) -> None:
    library = aotbuild.load(write(tmp_path, built()), arrays=arrays)
    assert [library.preload("f"), library.preload(), library.preload()] == [1, 1, 0]
    np.testing.assert_array_equal(library.g(X), X * 3)
    assert library.stats()["loaded"] == 2


def test_one_failure_stops_no_other(tmp_path: Path) -> None:
    made = built()
    folder = write(tmp_path, made)
    (folder / made[1].record.blob.path).write_bytes(b"damaged")
    library = aotbuild.load(folder)
    with pytest.raises(DamagedBlob):
        library.preload()
    assert library.stats()["loaded"] == 1
    np.testing.assert_array_equal(library.f(X), X * 2)


def test_what_is_required_is_missing(tmp_path: Path) -> None:
    first, second = built()
    record = replace(second.record, requires=replace(second.record.requires, jaxlib="0.0.1"))
    library = aotbuild.load(write(tmp_path, [first, replace(second, record=record)]))
    assert library.preload("f", require=True) == 1
    with pytest.raises(NoExecutable, match=r"runs here: 1\n  g:\n    g .*expected 0\.0\.1"):
        library.preload(require=True)
    assert library.preload() == 0
