"""The entry of a finished build is read with care: its names become paths."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.projects import MANIFEST, write_project

from aotbuild.build import planned
from aotbuild.build.finished import Finished, KeptBuild, WheelInputs, recall_build
from aotbuild.build.planned import PlanInputs, front_digests, known_plan, wheel_needs
from aotbuild.format.canonical import sha256_hex
from aotbuild.store.contents import survey
from aotbuild.store.entry import Entry
from aotbuild.store.folder import Folder
from aotbuild.store.keys import blob_key, key_of
from aotbuild.store.local import Store
from aotbuild.store.read_set import ReadSet

TEXT = """
version: 1
package: proj
functions:
  f: {call: "proj.model:f", args: [x: "f32[4]"]}
"""
DATA = b"a blob"
BLOB = f"{sha256_hex(DATA)}.pjrt"
USED = key_of({"entry": "of direct mode"})


class Kept:
    """A project with a finished build in its store, which nothing has compiled."""

    def __init__(self, folder: Path) -> None:
        self.root = write_project(folder / "project", TEXT)
        self.variables = {"AOTBUILD_STORE": str(folder / "store"), "AOTBUILD_DIRECT": "on"}
        self.store, self.folder = Store(folder / "store"), folder / "out" / "_aot"
        self.folder.parent.mkdir()
        plan = PlanInputs(self.root, self.root / MANIFEST, (), front_digests(self.variables))
        self.inputs = WheelInputs(plan, (".",))
        self.stated = wheel_needs(plan, self.variables, print) or ()
        sources = self.inputs.sources("proj")
        state = self.inputs.world(sources, self.variables).state(ReadSet())
        finished = Finished("proj", "py3-none-any", ("a line",), "made")
        key = blob_key(sha256_hex(DATA))
        self.store.put(key, Entry({"entry": "blob"}, DATA))
        self.store.put(USED, Entry({"entry": "direct"}, b""))
        self.kept = KeptBuild(
            finished, b"index", {BLOB: key}, (USED,), sources.below(self.root), ReadSet(), state
        )

    def put(self, entry: Entry) -> None:
        plan = known_plan(self.inputs.plan, self.store)
        assert plan is not None
        self.store.put(str(self.inputs.key(plan, self.variables)), entry)

    def recall(self) -> Finished | None:
        return recall_build(self.inputs, self.folder, self.stated, self.variables)


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Kept:
    monkeypatch.setattr(planned, "TICK", 0)  # files of a test are younger than any tick
    return Kept(tmp_path)


def test_an_entry_as_it_is_written(kept: Kept) -> None:
    kept.put(kept.kept.to_entry())
    assert kept.recall() == kept.kept.finished
    assert (kept.folder / "blobs" / BLOB).read_bytes() == DATA
    assert kept.store.problems == {}


def without(name: str) -> Callable[[dict[str, Any]], object]:
    return lambda facts: facts.pop(name)


def having(**facts: Any) -> Callable[[dict[str, Any]], object]:
    return lambda found: found.update(facts)


def finished(**changed: Any) -> Callable[[dict[str, Any]], object]:
    return lambda found: found["finished"].update(changed)


KEY = blob_key(sha256_hex(DATA))
OTHER_FACTS = {
    **{f"without {name}": without(name) for name in ("finished", "index", "blobs", "reads")},
    "a path": having(blobs={f"../../{BLOB}": KEY}),
    "an absolute path": having(blobs={f"/tmp/{BLOB}": KEY}),
    "a kind with a path": having(blobs={f"{sha256_hex(DATA)}./../x": KEY}),
    "a key that is a path": having(blobs={BLOB: "../../project/aot.yaml"}),
    "a key that is none": having(blobs={BLOB: None}),
    "a use that is a path": having(used=["../../../project/aot.yaml"]),
    "a list of another type": having(used="all"),
    "no end of the index": having(index=1 << 40),
    "half an index": having(index=1.5),
    "names of a newer version": having(reads={"sockets": ["a"]}),
    "names of another type": having(reads={"files": "abc"}),
    "another package": finished(package="../proj"),
    "another tag": finished(tag="py3-none-any/../../x"),
    "no text": finished(made=1),
}


@pytest.mark.parametrize("what", OTHER_FACTS)
def test_an_entry_with_other_facts(
    kept: Kept, tmp_path: Path, what: str, caplog: pytest.LogCaptureFixture
) -> None:
    entry = kept.kept.to_entry()
    OTHER_FACTS[what](entry.facts)
    kept.put(entry)
    before = {path: path.stat().st_mtime_ns for path in kept.root.rglob("*")}
    assert kept.recall() is None
    assert not [*tmp_path.rglob(f"*{BLOB}")], "nothing was written"
    assert {path: path.stat().st_mtime_ns for path in kept.root.rglob("*")} == before
    assert "its facts are others than expected" in caplog.text
    kept.put(kept.kept.to_entry())
    assert kept.recall() == kept.kept.finished


def test_a_blob_of_another_digest(kept: Kept) -> None:
    other = f"{sha256_hex(b'another')}.pjrt"
    kept.put(replace(kept.kept, blobs={other: KEY}).to_entry())
    assert kept.recall() is None


def test_what_it_uses_counts_as_used(kept: Kept) -> None:
    kept.put(kept.kept.to_entry())
    folder = Folder(kept.store.root or Path())
    for item in survey(folder.root).entries:
        os.utime(item.path, (1e9, 1e9))
    assert kept.recall()
    assert not [item.path for item in survey(folder.root).entries if item.used == 1e9]
