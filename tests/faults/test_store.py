"""Entries of the store that are damaged, exchanged or lies: each is a miss, and is made again."""

from __future__ import annotations

import os
import shutil
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from faults.ended import NEVER
from faults.entry_damage import BYTES, DAMAGE, ENTRY, KEY, OTHER, RAW, UNHEALED
from support.cli import invoke
from support.like_a_user import read_only
from support.projects import build, write_project
from support.signing import keys, public_file

from aotbuild.format.temporary import LOCK
from aotbuild.store.contents import survey
from aotbuild.store.entry import Entry, read_head, with_seals, write_entry
from aotbuild.store.folder import Folder
from aotbuild.store.layers import Layers, open_store
from aotbuild.store.local import Store

EVERY = {**DAMAGE, **UNHEALED}


def layers(*items: object, **variables: str) -> Layers:
    return open_store({"AOTBUILD_STORE": ",".join(map(str, items)), **variables})


def damaged(root: Path, name: str) -> Path:
    """Put an entry into a folder, and damage it; return its path."""
    Folder(root).write(KEY, RAW)
    EVERY[name](path := Folder(root).path(KEY))
    return path


# --- one damaged entry, wherever it is -----------------------------------------------------------


@pytest.mark.cause(7)
@pytest.mark.parametrize("name", EVERY)
def test_in_the_folder_in_front(
    tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = damaged(tmp_path, name)
    with layers(tmp_path) as store:
        assert store.store.get(KEY) is None
        store.store.put(KEY, ENTRY)
        assert store.store.get(KEY) == (ENTRY if name in DAMAGE else None)
    assert len(caplog.messages) <= 1
    assert path.is_file() == (name in DAMAGE)


@pytest.mark.cause(7)
@pytest.mark.parametrize("name", EVERY)
def test_in_a_folder_that_is_read_only(
    tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The only one, and behind one that may be written."""
    damaged(shared := tmp_path / "shared", name)
    with read_only(shared):
        with layers(shared) as store:
            assert store.store.get(KEY) is None
            assert store.store.get(KEY) is None
        assert len(caplog.messages) <= 1
        caplog.clear()
        with layers(tmp_path / "front", shared) as store:
            assert store.store.get(KEY) is None
            store.store.put(KEY, ENTRY)
            store.push()
            assert store.store.get(KEY) == ENTRY
    # One of the entry, one of the folder.
    assert len([text for text in caplog.messages if KEY in text]) <= 1
    assert len(caplog.messages) <= 2
    assert "set aside" not in caplog.text


@pytest.mark.cause(7)
@pytest.mark.parametrize("mode", ["rw", "ro"])
@pytest.mark.parametrize("name", EVERY)
def test_in_a_folder_behind(
    tmp_path: Path, name: str, mode: str, caplog: pytest.LogCaptureFixture
) -> None:
    damaged(behind := tmp_path / "behind", name)
    with layers(tmp_path / "front", f"{behind}?mode={mode}") as store:
        assert store.store.get(KEY) is None
        store.store.put(KEY, ENTRY)
        store.push()
        assert store.store.get(KEY) == ENTRY
    assert len(caplog.messages) <= 2
    assert Store(behind).get(KEY) == (ENTRY if mode == "rw" and name in DAMAGE else None)


@pytest.mark.cause(7)
@pytest.mark.parametrize("name", EVERY)
def test_commands(tmp_path: Path, name: str) -> None:
    """None hangs, or meets an error that nobody foresaw; none copies what is damaged."""
    damaged(tmp_path / "store", name)
    front = tmp_path / "front"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AOTBUILD_STORE", str(front))
        for words in (
            ("info",),
            ("list", tmp_path / "store"),
            ("verify", tmp_path / "store"),
            ("pull", tmp_path / "store"),
            ("prune", tmp_path / "store"),
        ):
            result = invoke("store", *words)
            assert result.exit_code in (0, 5), result.output
            assert not [text for text in NEVER if text in result.output]
    assert Store(front).get(KEY) is None


@pytest.mark.cause(7)
@pytest.mark.parametrize("name", ["nothing", "another digest", "a pipe", "a link to itself"])
def test_many_readers_of_one(tmp_path: Path, name: str) -> None:
    """All find nothing, make it, and find it then."""
    damaged(tmp_path, name)
    begin = threading.Barrier(8)

    def use(_: int) -> Entry | None:
        with layers(tmp_path) as store:
            begin.wait()
            store.store.get(KEY)
            store.store.put(KEY, ENTRY)
            return store.store.get(KEY)

    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(use, range(8)))
    # A reader of the damaged one may set aside what another has just made.
    assert all(entry in (None, ENTRY) for entry in found)
    Store(tmp_path).put(KEY, ENTRY)
    assert Store(tmp_path).get(KEY) == ENTRY


@pytest.mark.cause(7)
@pytest.mark.parametrize("gone", ["the entry", "its folder", "the store"])
def test_what_vanishes_meanwhile(tmp_path: Path, gone: str) -> None:
    root = tmp_path / "store"
    with layers(root) as store:
        store.store.put(KEY, ENTRY)
        path = Folder(root).path(KEY)
        places = {"the entry": path, "its folder": path.parent, "the store": root}
        shutil.rmtree(places[gone]) if places[gone].is_dir() else places[gone].unlink()
        assert store.store.get(KEY) is None
        assert not store.store.use(KEY)
        store.store.forget(KEY)
        store.push()
        store.store.put(KEY, ENTRY)
        assert store.store.get(KEY) == ENTRY


# --- facts that say something else ---------------------------------------------------------------

LIES: tuple[Any, ...] = (
    *({}, {"seconds": None}, {"seconds": "9"}, {"seconds": -1}, {"seconds": True}),
    *({"seconds": [[]]}, {"seconds": {"a": 1}}, {"seconds": 10**400}, {"seconds": 1e999}),
)


@pytest.mark.cause(7)
@pytest.mark.parametrize("name", ["v2", f"v2/{KEY[:2]}"])
@pytest.mark.parametrize("kind", ["a pipe", "a link to itself", "a link to nowhere", "a file"])
def test_no_folder_where_one_must_be(
    tmp_path: Path, name: str, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    makers = {"a pipe": os.mkfifo, "a file": lambda path: path.touch()}
    links = {"a link to itself": path, "a link to nowhere": tmp_path / "gone" / "gone"}
    makers[kind](path) if kind in makers else path.symlink_to(links[kind])
    with layers(tmp_path) as store:
        store.store.put(KEY, ENTRY)
        assert store.store.get(KEY) is None
    assert len(caplog.messages) <= 1
    for words in ("list", "verify", "prune"):
        result = invoke("store", words, tmp_path)
        assert result.exit_code in (0, 6), result.output
        assert not [text for text in NEVER if text in result.output]


# --- the entry of another key --------------------------------------------------------------------


@pytest.mark.cause(2)
class TestExchanged:
    MINE, THEIRS = Entry({"name": "add"}, b"add"), Entry({"name": "subtract"}, b"subtract")

    def exchanged(self, root: Path) -> None:
        folder = Folder(root)
        folder.write(KEY, write_entry(KEY, self.MINE))
        folder.write(OTHER, write_entry(OTHER, self.THEIRS))
        one, two = folder.path(KEY), folder.path(OTHER)
        data = one.read_bytes(), two.read_bytes()
        one.write_bytes(data[1])
        two.write_bytes(data[0])

    def test_in_front(self, tmp_path: Path) -> None:
        self.exchanged(tmp_path)
        with layers(tmp_path) as store:
            assert [store.store.get(key) for key in (KEY, OTHER)] == [None, None]

    @pytest.mark.parametrize("mode", ["rw", "ro"])
    def test_behind(self, tmp_path: Path, mode: str) -> None:
        self.exchanged(tmp_path / "behind")
        with layers(tmp_path / "front", f"{tmp_path}/behind?mode={mode}") as store:
            assert [store.store.get(key) for key in (KEY, OTHER)] == [None, None]

    def test_in_a_remote_layer(self, tmp_path: Path) -> None:
        self.exchanged(tmp_path / "bucket")
        with layers(tmp_path / "front", f"dir::file://{tmp_path}/bucket") as store:
            assert [store.store.get(key) for key in (KEY, OTHER)] == [None, None]

    def test_signed_ones(self, tmp_path: Path) -> None:
        """Each honest, by a key that is trusted."""
        (key,) = keys(1)
        public_file(tmp_path / "key.pub.pem", key)
        for name, entry in ((KEY, self.MINE), (OTHER, self.THEIRS)):
            raw = write_entry(name, entry)
            other = OTHER if name == KEY else KEY
            signed = with_seals(raw, name, [key.seal(read_head(raw, name).statement)])
            Folder(tmp_path / "behind").write(other, signed)
        trust = {"AOTBUILD_STORE_TRUST": str(tmp_path / "key.pub.pem")}
        with layers(tmp_path / "front", tmp_path / "behind", **trust) as store:
            assert [store.store.get(each) for each in (KEY, OTHER)] == [None, None]

    def test_a_signature_for_another_key(self, tmp_path: Path) -> None:
        """The key in the head is what was asked for; the signature is of another head."""
        (key,) = keys(1)
        public_file(tmp_path / "key.pub.pem", key)
        theirs = write_entry(OTHER, self.THEIRS)
        seal = key.seal(read_head(theirs, OTHER).statement)
        raw = with_seals(write_entry(KEY, self.THEIRS), KEY, [seal])
        Folder(tmp_path / "behind").write(KEY, raw)
        trust = {"AOTBUILD_STORE_TRUST": str(tmp_path / "key.pub.pem")}
        with layers(tmp_path / "front", tmp_path / "behind", **trust) as store:
            assert store.store.get(KEY) is None

    @pytest.mark.parametrize("command", ["verify", "pull"])
    def test_commands_say_so(self, tmp_path: Path, command: str) -> None:
        self.exchanged(tmp_path / "store")
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("AOTBUILD_STORE", str(tmp_path / "front"))
            result = invoke("store", command, tmp_path / "store")
        assert result.exit_code == 5
        assert f"FAIL: {KEY}: it is the entry {OTHER}" in result.stdout
        assert survey(tmp_path / "front").entries == ()

    def test_an_entry_of_an_earlier_format(self, tmp_path: Path) -> None:
        """Its digest did not cover the key; it is in a folder that nothing reads any more."""
        old = tmp_path / "v1" / KEY[:2] / KEY
        old.parent.mkdir(parents=True)
        old.write_bytes(RAW)
        with layers(tmp_path) as store:
            assert store.store.get(KEY) is None


MANIFEST = """
version: 1
package: proj
functions:
  add: {call: "proj.m:add", args: [x: "f32[4]"], verify: {golden: never}}
  subtract: {call: "proj.m:subtract", args: [x: "f32[4]"], verify: {golden: never}}
"""
SOURCE = "def add(x):\n    return x + 1\n\n\ndef subtract(x):\n    return x - 1\n"


@pytest.mark.process
@pytest.mark.cause(2)
def test_a_build_with_exchanged_executables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AOTBUILD_STORE", str(tmp_path / "store"))
    project = write_project(tmp_path / "project", MANIFEST, m=SOURCE)
    first = {record.function: record.blob for record in build(project).records}
    one, two = (item.path for item in survey(tmp_path / "store").entries)
    data = one.read_bytes(), two.read_bytes()
    one.write_bytes(data[1])
    two.write_bytes(data[0])
    assert {record.function: record.blob for record in build(project).records} == first


# --- what is left behind -------------------------------------------------------------------------


@pytest.mark.cause(18)
@pytest.mark.parametrize(("days", "stays"), [(0, True), (29, True), (31, False), (-400, True)])
@pytest.mark.parametrize("opened", ["front", "behind", "read-only"])
def test_what_was_set_aside_goes_after_30_days(
    tmp_path: Path, days: int, stays: bool, opened: str
) -> None:
    root = tmp_path / "store"
    Folder(root).write(KEY, BYTES["another digest"])
    assert Store(root).get(KEY) is None
    aside = Folder(root).path(KEY).with_suffix(".damaged")
    assert time.time() - aside.stat().st_mtime < 3600
    when = time.time() - days * 24 * 3600
    os.utime(aside, (when, when))
    items = {"front": [root], "behind": [tmp_path / "front", root]}
    with layers(*items.get(opened, [f"{root}?mode=ro"])):
        pass
    assert aside.exists() == (stays or opened == "read-only")


@pytest.mark.cause(18)
def test_old_entries_that_were_damaged_a_moment_ago_stay(tmp_path: Path) -> None:
    """The age counts from when they were set aside, not from their last use."""
    Folder(tmp_path).write(KEY, BYTES["another digest"])
    os.utime(path := Folder(tmp_path).path(KEY), (0, 0))
    for _ in range(2):
        with layers(tmp_path) as store:
            store.store.get(KEY)
    assert path.with_suffix(".damaged").exists()


@pytest.mark.cause(18)
def test_nobody_elses_files_are_removed(tmp_path: Path) -> None:
    (folder := Folder(tmp_path).path(KEY).parent).mkdir(parents=True)
    kept = [folder / "mine.damaged", folder / KEY, tmp_path / f"{KEY}.damaged"]
    for path in kept:
        path.write_bytes(RAW)
        os.utime(path, (0, 0))
    with layers(tmp_path):
        pass
    assert [path for path in kept if path.exists()] == kept


@pytest.mark.cause(18)
def test_prune_removes_all_that_is_left(tmp_path: Path) -> None:
    for name in ("another digest", "a cut body"):
        damaged(tmp_path, name)
        Store(tmp_path).get(KEY)
    abandoned = tmp_path / ".aotbuild-tmp-0123456789ab-x"
    abandoned.mkdir()
    for name in (LOCK, KEY):
        (abandoned / name).write_bytes(RAW)
    os.utime(abandoned, (0, 0))
    assert invoke("store", "prune", tmp_path).exit_code == 0
    assert [path for path in tmp_path.rglob("*") if not path.is_dir()] == []
