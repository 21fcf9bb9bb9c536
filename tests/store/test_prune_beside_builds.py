"""Pruning while builds run: they make again what they miss, and nothing is lost or wrong."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.projects import build, write_project

from aotbuild.build.pack import Package
from aotbuild.store.prune import prune, survey

MANIFEST = """
version: 1
package: proj
functions:
  f: {call: "proj.m:f", args: [x: "f32[n]"], dims: {n: [2, 4, 8]}, constants: hoist}
  g: {call: "proj.m:g", args: [x: "f32[4]"]}
"""
SOURCE = """
import numpy as np

TABLE = np.arange(64, dtype=np.float32)


def f(x):
    return x.sum() + TABLE


def g(x):
    return x * 2
"""


@contextmanager
def pruned_all_the_time(store: Path) -> Iterator[set[str]]:
    """Remove every entry again and again; yield the keys of those that were removed so far."""
    removed: set[str] = set()
    ended = threading.Event()

    def run() -> None:
        while not ended.is_set():
            removed.update(item.key for item in prune(store, time.time(), max_size=0).removed)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield removed
    finally:
        ended.set()
        thread.join()


def bytes_of(package: Package) -> dict[str, bytes]:
    files = (path for path in package.folder.rglob("*") if path.is_file())
    return {str(path.relative_to(package.folder)): path.read_bytes() for path in files}


@pytest.mark.process
def test_builds_while_everything_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    project = write_project(tmp_path / "project", MANIFEST, m=SOURCE)
    store = tmp_path / "store"
    monkeypatch.setenv("AOTBUILD_STORE", str(store))
    expected = bytes_of(build(project, tmp_path / "first" / "_aot"))
    kept = {item.key for item in survey(store)}
    assert len(kept) > 5
    with pruned_all_the_time(store) as removed:
        # The first has hits until the entries are gone; the second misses what the first made.
        for name in ("second", "third"):
            assert bytes_of(build(project, tmp_path / name / "_aot")) == expected
        assert removed == kept
    build(project, tmp_path / "fourth" / "_aot")
    assert {item.key for item in survey(store)} == kept
    assert caplog.messages == []
