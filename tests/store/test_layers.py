"""The store in layers: folders in front of folders, and what a build does with them."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import pytest
from support.projects import build, write_project

from aotbuild.store.entry import Entry, write_entry
from aotbuild.store.folder import Folder
from aotbuild.store.keys import key_of
from aotbuild.store.layer import Layer
from aotbuild.store.layers import Counts, Layers, open_store
from aotbuild.store.local import Store
from aotbuild.store.room import Room

KEY, OTHER = key_of({"a": 1}), key_of({"a": 2})
ENTRY = Entry({"flops": 2.0}, b"code")


def layers(*items: object) -> Layers:
    return open_store({"AOTBUILD_STORE": ",".join(map(str, items))})


def put(root: Path, key: str = KEY) -> None:
    Folder(root).write(key, write_entry(key, ENTRY))


def test_an_entry_from_behind_fills_the_layers_in_front(tmp_path: Path) -> None:
    a, b, c = (tmp_path / name for name in "abc")
    put(c)
    with layers(a, b, f"{c}?mode=ro") as store:
        assert store.front == a
        assert store.store.get(KEY) == ENTRY
        assert store.store.get(OTHER) is None
        assert store.counts == Counts(used=1, fetched=1)
    assert Folder(a).read(KEY) == Folder(b).read(KEY) == Folder(c).read(KEY)


def test_without_keys_no_library_of_signatures_is_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("cryptography", "cryptography.exceptions"):
        monkeypatch.setitem(sys.modules, name, None)
    put(tmp_path / "b")
    with layers(tmp_path / "a", tmp_path / "b", tmp_path / "c") as store:
        assert store.store.get(KEY) == ENTRY
        store.push()
    assert Folder(tmp_path / "c").has(KEY)


def test_what_was_made_and_used_is_pushed(tmp_path: Path) -> None:
    a, b, c = (tmp_path / name for name in "abc")
    put(a)
    with layers(a, b, f"{c}?mode=ro") as store:
        store.store.get(KEY)
        store.store.put(OTHER, ENTRY)
        store.push(store.store.made | store.store.used)
        assert store.counts == Counts(used=1, made=1, pushed=2)
    assert Folder(b).has(KEY)
    assert Folder(b).has(OTHER)
    assert not c.exists()


def test_a_damaged_entry_behind_is_not_believed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    a, b = (tmp_path / name for name in "ab")
    Folder(b).write(KEY, write_entry(OTHER, ENTRY))
    with layers(a, b) as store:
        assert store.store.get(KEY) is None
    assert not a.exists()
    assert caplog.messages == [f"{b}: the entry {KEY} is not used: it is the entry {OTHER}"]


def test_an_entry_of_another_machine_alone_is_not_fetched(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    a, b = (tmp_path / name for name in "ab")
    Folder(b).write(KEY, write_entry(KEY, Entry({"local": True}, b"")))
    with layers(a, b) as store:
        assert store.store.get(KEY) is None
    assert not a.exists()
    assert caplog.text == ""


def test_an_entry_of_this_machine_alone_is_not_pushed(tmp_path: Path) -> None:
    a, b = (tmp_path / name for name in "ab")
    with layers(a, b) as store:
        store.store.put(KEY, Entry({"local": True}, b""))
        store.push()
    assert not b.exists()


def test_an_entry_that_was_made_in_place_of_a_fetched_one(tmp_path: Path) -> None:
    """Facts of another version are of no use: what is made takes their place in each layer."""
    a, b = (tmp_path / name for name in "ab")
    put(b)
    with layers(a, b) as store:
        assert store.store.parsed(KEY, lambda entry: entry.facts["new"]) is None
        store.store.put(KEY, Entry({"new": 1}, b""))
        store.push()
    for folder in (a, b):
        assert Store(folder).parsed(KEY, lambda entry: entry.facts["new"]) == 1


def test_large_entries_are_pushed_one_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Small ones go together; no more bytes than there is room for are in memory."""
    held, most, lock = [0], [0], threading.Lock()
    write = Layer.write

    def watched(layer: Layer, key: str, raw: bytes, *, again: bool = False) -> bool:
        with lock:
            held[0] += len(raw)
            most[0] = max(most[0], held[0])
        done = write(layer, key, raw, again=again)
        with lock:
            held[0] -= len(raw)
        return done

    monkeypatch.setattr(Layer, "write", watched)
    a, b = (tmp_path / name for name in "ab")
    keys = [key_of({"number": number}) for number in range(12)]
    with layers(a, b) as store:
        store._room = Room(3000)
        for number, key in enumerate(keys):
            store.store.put(key, Entry({}, bytes(5000 if number % 4 == 0 else 1000)))
        store.push()
    assert all(Folder(b).has(key) for key in keys)
    assert most[0] < 6000


def test_what_is_no_key_names_no_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("stays")
    with layers(tmp_path / "store") as store, pytest.raises(ValueError, match="not the key of an"):
        store.store.get("../../../file")
    assert (tmp_path / "file").read_text() == "stays"


def test_without_a_folder_to_write_the_front_is_temporary(tmp_path: Path) -> None:
    put(tmp_path)
    with layers(f"{tmp_path}?mode=ro") as store:
        front = store.front
        assert front is not None
        assert store.store.get(KEY) == ENTRY
        store.store.put(OTHER, ENTRY)
        assert Folder(front).has(OTHER)
    assert not front.exists()
    assert not Folder(tmp_path).has(OTHER)


def test_off_keeps_and_finds_nothing() -> None:
    with layers("off") as store:
        assert store.front is None
        store.store.put(KEY, ENTRY)
        assert not store.fetch(KEY)
        store.push([KEY])
        assert store.counts == Counts()


MODULE = """
import os
assert "AOTBUILD_STORE" not in os.environ
def f(x):
    return x * 2
"""


@pytest.mark.process
def test_workers_fetch_and_push(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker sees the front only, and no URL; the build fetches and pushes for it."""
    manifest = """
version: 1
package: proj
functions:
  f: {call: "proj.m:f", args: [x: "f32[4]"]}
"""
    project = write_project(tmp_path / "project", manifest, m=MODULE)
    shared, a, b = (tmp_path / name for name in ("shared", "a", "b"))
    monkeypatch.setenv("AOTBUILD_STORE", f"{a},{shared}")
    first = build(project)
    keys = sorted(path.name for path in shared.rglob("*") if path.is_file())
    assert len(keys) == 2  # the executable, and its golden outputs
    monkeypatch.setenv("AOTBUILD_STORE", f"{b},{shared}?mode=ro")
    second = build(project)
    assert sorted(path.name for path in b.rglob("*") if path.is_file()) == keys
    assert [record.blob for record in second.records] == [record.blob for record in first.records]
