"""The user's code sets a umask: the files of the build have the modes of the build's own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.projects import ONE_FUNCTION, build, write_project

pytestmark = pytest.mark.process

CODE = """\
import os

os.umask({:#o})


def f(x):
    return x + 1
"""


@pytest.fixture(autouse=True)
def _own_umask() -> Iterator[None]:
    before = os.umask(0o027)
    yield
    os.umask(before)


@pytest.mark.parametrize("umask", [0o000, 0o077, 0o777])
def test_code_that_sets_a_umask(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, umask: int
) -> None:
    """In the package and in the store, which later builds and other users read."""
    monkeypatch.setenv("AOTBUILD_STORE", str(tmp_path / "store"))
    root = write_project(tmp_path / "here", ONE_FUNCTION, code=CODE.format(umask))
    package = build(root, root / "out" / "_aot").folder
    for place in (package, tmp_path / "store"):
        found = [*place.rglob("*")]
        files = {path.stat().st_mode & 0o777 for path in found if path.is_file()}
        folders = {path.stat().st_mode & 0o777 for path in found if path.is_dir()}
        assert (files, folders) == ({0o640}, {0o750})
