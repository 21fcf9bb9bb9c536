"""Digests of files are kept only if nobody can have written to the file unseen."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from aotbuild.store import file_digests
from aotbuild.store.file_digests import FileDigests

SECOND = 1_000_000_000


def test_of_a_file_that_had_just_changed_nothing_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have changed again, within one tick of the clock, after it was read."""
    old, new = tmp_path / "old.py", tmp_path / "new.py"
    old.write_text("old")
    new.write_text("new")
    kept = tmp_path / "store" / "digests.json"
    digests = FileDigests(kept)
    changed = max(old.stat().st_ctime_ns, new.stat().st_ctime_ns)
    for file, age in ((new, 0), (old, 10 * SECOND)):
        clock = SimpleNamespace(time_ns=lambda now=changed + age: now)
        monkeypatch.setattr(file_digests, "time", clock)
        digests.of(str(file))
    digests.save()
    assert list(json.loads(kept.read_text()).values()) == [digests.of(str(old))]
