"""The store keeps what was compiled, whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from aotbuild.build.store import Entry, Store, default_root, key_of

KEY = key_of({"module": "m", "target": "cpu"})
ENTRY = Entry({"flops": 2.0}, b"\x00code\n\xff")


def test_round_trip(tmp_path: Path) -> None:
    store = Store(tmp_path)
    assert store.get(KEY) is None
    store.put(KEY, ENTRY)
    assert store.get(KEY) == ENTRY


def test_keys_follow_the_inputs() -> None:
    assert key_of({"a": 1, "b": 2}) == key_of({"b": 2, "a": 1})
    assert key_of({"a": 1}) != key_of({"a": 1.0})


@pytest.mark.parametrize("damage", [b"", b"x", b"\n\n", None])
def test_a_damaged_entry_is_set_aside(tmp_path: Path, damage: bytes | None) -> None:
    store = Store(tmp_path)
    store.put(KEY, ENTRY)
    (path,) = (p for p in tmp_path.rglob("*") if p.is_file())
    raw = path.read_bytes()
    path.write_bytes(raw[:-1] + b"\xfe" if damage is None else damage)
    assert store.get(KEY) is None
    assert path.with_suffix(".damaged").exists()
    store.put(KEY, ENTRY)
    assert store.get(KEY) == ENTRY


def test_a_folder_that_cannot_be_written_keeps_nothing(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    store = Store(blocked)
    store.put(KEY, ENTRY)
    assert store.get(KEY) is None


def test_default_place() -> None:
    assert default_root({"HOME": "/h"}) == Path("/h/.cache/aotbuild/store")
    assert default_root({"HOME": "/h", "XDG_CACHE_HOME": "/c"}) == Path("/c/aotbuild/store")
    assert default_root({"HOME": "/h", "AOTBUILD_STORE": "/s"}) == Path("/s")
    assert default_root({"HOME": "/h", "AOTBUILD_STORE": "off"}) is None
    assert default_root({}) is None
