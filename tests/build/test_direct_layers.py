"""What direct mode keeps in the layers of a store, and finds there again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from support.direct import Place as Project
from support.direct import manifest
from support.projects import write_project

from aotbuild.build.direct.entries import DirectEntries, Names, Result
from aotbuild.store.contents import survey
from aotbuild.store.entry import Entry, read_entry, write_entry
from aotbuild.store.folder import Folder
from aotbuild.store.index import MOST_ROWS
from aotbuild.store.keys import direct_key, index_key
from aotbuild.store.layer import Layer
from aotbuild.store.layers import Layers, open_store
from aotbuild.store.places import Place
from aotbuild.store.read_set import ReadSet

pytestmark = pytest.mark.any_jax

OUTER = direct_key({"job": 1})
INDEX = index_key(OUTER)
SHARED = ReadSet(modules=("numpy",))


def opened(*items: object) -> Layers:
    return open_store({"AOTBUILD_STORE": ",".join(map(str, items))})


def keep(layers: Layers, *names: str, file: str = "") -> None:
    """Keep a result for each of several sets of names, as a build does at its end."""
    entries = DirectEntries(layers)
    for name in names:
        own = ReadSet(modules=(name,), files=(file,) if file else ())
        result = Result([{"of": name}], {})
        marks = {"modules": "0123"}, {"modules": "4567"}
        entries.keep(OUTER, Names.of(own, SHARED), "state", result, marks, local=False)
        layers.push()


def found(layers: Layers) -> list[str]:
    """Return the names of which a result is found, in the order of looking."""
    entries, names = DirectEntries(layers), []
    for candidate in entries.candidates(OUTER):
        result = entries.result(OUTER, candidate, "state")
        if result is not None:
            assert result.messages == [{"of": candidate.names.own.modules[0]}]
            names.append(candidate.names.own.modules[0])
    return list(dict.fromkeys(names))


def take(layers: Layers, name: str) -> None:
    """Use a result, and push what a build pushes."""
    entries = DirectEntries(layers)
    for candidate in entries.candidates(OUTER):
        is_it = candidate.names.own.modules == (name,)
        if is_it and entries.result(OUTER, candidate, "state") is not None:
            entries.use(OUTER, candidate)
            break
    layers.push()


def rows_in(root: Path) -> list[str]:
    """Return the names in the index of a folder, the first one first."""
    raw = Folder(root).read(INDEX)
    entries = DirectEntries(opened(root))
    assert raw is None or read_entry(raw, INDEX)
    return [candidate.names.own.modules[0] for candidate in entries.candidates(OUTER)]


@pytest.mark.parametrize("url", [False, True])
def test_many_sets_through_a_shared_layer(tmp_path: Path, *, url: bool) -> None:
    """More than the eight that an outer key once had."""
    shared = f"file://{tmp_path / 'shared'}" if url else tmp_path / "shared"
    names = [f"m{number}" for number in range(12)]
    for number, name in enumerate(names):
        keep(opened(tmp_path / f"front{number % 3}", shared), name)
    assert found(opened(tmp_path / "other", f"{shared}?mode=ro")) == names[::-1]


def test_an_index_does_not_grow_for_ever(tmp_path: Path) -> None:
    names = [f"m{number}" for number in range(MOST_ROWS + 4)]
    front, shared = tmp_path / "front", tmp_path / "shared"
    keep(opened(front, shared), *names)
    assert rows_in(front) == rows_in(shared) == names[:3:-1]
    # One that is used again takes its place in front, without those that nobody used.
    take(opened(front, shared), "m4")
    assert rows_in(shared)[0] == names[-1]
    keep(opened(front, shared), "m0")
    assert rows_in(shared)[:2] == ["m0", names[-1]]


def test_an_index_in_front_hides_none_behind(tmp_path: Path) -> None:
    a, b, shared = (tmp_path / name for name in ("a", "b", "shared"))
    keep(opened(a, shared), "of_a")
    keep(opened(b), "of_b")
    assert found(opened(b, shared)) == ["of_b", "of_a"]
    take(opened(b, shared), "of_a")
    assert found(opened(b)) == ["of_a", "of_b"]


def test_a_lost_update_is_made_again(tmp_path: Path) -> None:
    """Two builds write the index of a layer at the same time; one of their rows is lost."""
    a, b, shared = (tmp_path / name for name in ("a", "b", "shared"))
    keep(opened(a, shared), "of_a")
    old = Folder(shared).read(INDEX)
    assert old is not None
    keep(opened(b, shared), "of_b")
    Folder(shared).write(INDEX, old)
    assert rows_in(shared) == ["of_a"]
    take(opened(b, shared), "of_b")
    assert rows_in(shared) == ["of_b", "of_a"]


def test_what_is_of_this_machine_stays(tmp_path: Path) -> None:
    front, shared = tmp_path / "front", tmp_path / "shared"
    layers = opened(front, shared)
    keep(layers, "here", file="/data/weights")
    assert found(opened(front)) == ["here"]
    keep(layers, "anywhere")
    assert rows_in(front) == ["anywhere", "here"]
    assert found(opened(tmp_path / "other", shared)) == ["anywhere"]
    raw = [item.path.read_bytes() for item in survey(shared).entries]
    assert not any(b"/data/weights" in each for each in raw)


DAMAGES: dict[str, Callable[[Path], object]] = {
    "empty": lambda path: path.write_bytes(b""),
    "cut": lambda path: path.write_bytes(path.read_bytes()[:-5]),
    "swapped": lambda path: path.write_bytes(
        next(p for p in sorted(path.parents[1].rglob("*/*")) if p != path).read_bytes()
    ),
    "gone": lambda path: path.unlink(),
    "link": lambda path: (path.unlink(), path.symlink_to("nowhere")),
}


@pytest.mark.parametrize("damage", [*DAMAGES])
@pytest.mark.parametrize("where", ["front", "shared"])
def test_a_damaged_index_is_made_again(tmp_path: Path, where: str, damage: str) -> None:
    front, shared = tmp_path / "front", tmp_path / "shared"
    keep(opened(front, shared), "one", "two")
    DAMAGES[damage](Folder(tmp_path / where).path(INDEX))
    assert found(opened(front, shared)) == ["two", "one"]
    for name in ("one", "two"):
        take(opened(front, shared), name)
    assert {*rows_in(front)} == {*rows_in(shared)} == {"one", "two"}
    assert not damaged_in(front)
    assert not damaged_in(shared)


@pytest.mark.parametrize("data", [b"", b"{}", b"[1]", b'[{"own": "../x"}]', b"[" * 100_000])
def test_an_index_with_other_content(tmp_path: Path, data: bytes) -> None:
    front, shared = tmp_path / "front", tmp_path / "shared"
    for folder in (front, shared):
        raw = write_entry(INDEX, Entry({"entry": "direct index"}, data))
        Folder(folder).write(INDEX, raw)
    assert found(opened(front, shared)) == []
    keep(opened(front, shared), "one")
    assert rows_in(front) == rows_in(shared) == ["one"]


@pytest.mark.parametrize("damage", [*DAMAGES])
def test_a_damaged_set_does_not_hide_the_others(tmp_path: Path, damage: str) -> None:
    keep(opened(tmp_path), "one", "two", "three")
    own = [path for path in files_of(tmp_path, "direct names") if b'"numpy"' not in path]
    assert len(own) == 3
    DAMAGES[damage](Folder(tmp_path).path(own[1].decode()[-64:]))
    assert len(found(opened(tmp_path))) == 2
    assert not damaged_in(tmp_path)
    keep(opened(tmp_path), "one", "two", "three")
    assert len(found(opened(tmp_path))) == 3


def files_of(root: Path, kind: str) -> list[bytes]:
    """Return the contents of the entries of a kind, with their keys at the end."""
    entries = [(read_entry(i.path.read_bytes(), i.key), i.key) for i in survey(root).entries]
    found = [(entry, key) for entry, key in entries if entry.facts.get("entry") == kind]
    return sorted(entry.data + key.encode() for entry, key in found)


def damaged_in(root: Path) -> list[str]:
    """Return the keys of entries that are not whole."""
    bad = []
    for item in survey(root).entries:
        try:
            read_entry(item.path.read_bytes(), item.key)
        except (OSError, ValueError):
            bad.append(item.key)
    return bad


class Counted:
    """The files of a folder, as if they were far away: each request is noted."""

    def __init__(self, root: Path) -> None:
        self.folder, self.requests = Folder(root), list[str]()

    def has(self, key: str) -> bool:
        self.requests.append("has")
        return self.folder.has(key)

    def read(self, key: str) -> bytes | None:
        self.requests.append("read")
        return self.folder.read(key)

    def write(self, key: str, raw: bytes) -> None:
        self.requests.append("write")
        self.folder.write(key, raw)


def far(front: Path, shared: Path) -> tuple[Layers, Counted]:
    files = Counted(shared)
    near = Layer(Place(front), Folder(front))
    return Layers((near, Layer(Place(None, "far://shared"), files)), front), files


def test_requests_to_a_far_layer(tmp_path: Path) -> None:
    front, shared = tmp_path / "front", tmp_path / "shared"
    keep(opened(front, shared), *(f"m{number}" for number in range(8)))
    layers, files = far(tmp_path / "other", shared)
    take(layers, "m7")
    # The index, both sets of names, and the result; nothing is asked again to push.
    assert files.requests == ["read"] * 4
    # Sets that the front knows, whatever place they have, are looked for nowhere else.
    layers, files = far(front, shared)
    take(layers, "m0")
    assert files.requests.count("read") == 1, "the index, to see whether the row is there"
    assert "write" not in files.requests


PARTS = "import importlib, os\nPART = importlib.import_module(os.environ['PROJ_PART'])\n"


@pytest.mark.process
def test_builds_with_many_sets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = Project(tmp_path, monkeypatch)
    numbers = range(10)
    write_project(place.root, manifest(["one"]), one=PARTS + "def f(x): return x * PART.FACTOR")
    for number in numbers:
        place.write(f"../late/part{number}.py", f"FACTOR = {number}.0\n")
    shared = f"file://{tmp_path / 'shared'}"
    monkeypatch.setenv("AOTBUILD_STORE", f"{place.store},{shared}")
    for number in numbers:
        monkeypatch.setenv("PROJ_PART", f"part{number}")
        assert place.traced() == {"one"}
    monkeypatch.setenv("AOTBUILD_STORE", f"{tmp_path / 'other'},{shared}")
    for number in (9, 0):
        monkeypatch.setenv("PROJ_PART", f"part{number}")
        assert place.traced() == set()
