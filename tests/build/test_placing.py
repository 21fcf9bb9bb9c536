"""The last step: the old folder or the new one, whole, and never none where folders can swap."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from threading import Barrier

import pytest

from aotbuild.build import placing
from aotbuild.build.placing import put_into_place, workplace


def make(folder: Path, text: str) -> Path:
    folder.mkdir(parents=True)
    (folder / "index").write_text(text)
    return folder


def put(place: Path, text: str) -> None:
    with workplace(place) as temporary:
        put_into_place(make(temporary / "_aot", text), place)


@pytest.fixture(params=["exchanged", "moved"])
def place(tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Path:
    if request.param == "moved":
        monkeypatch.setattr(placing, "_exchange", lambda one, other: False)
    return tmp_path / "made" / "_aot"


def test_a_new_folder(place: Path) -> None:
    put(place, "new")
    assert [path.name for path in place.parent.iterdir()] == ["_aot"]
    assert (place / "index").read_text() == "new"


def test_an_old_folder_is_replaced_and_removed(place: Path) -> None:
    (make(place, "old") / "more").touch()
    put(place, "new")
    assert [path.name for path in place.parent.iterdir()] == ["_aot"]
    assert [path.name for path in place.iterdir()] == ["index"]
    assert (place / "index").read_text() == "new"


def test_folders_are_exchanged_in_one_step(tmp_path: Path) -> None:
    one, other = make(tmp_path / "one", "1"), make(tmp_path / "other", "2")
    assert placing._exchange(one, other)
    assert ((one / "index").read_text(), (other / "index").read_text()) == ("2", "1")


def test_builds_that_put_theirs_there_at_once(tmp_path: Path) -> None:
    """The last one wins, and none fails."""
    places = [tmp_path / str(number) / "_aot" for number in range(100)]
    with ThreadPoolExecutor(4) as threads:
        for place in places:
            ready = Barrier(4)
            list(threads.map(partial(put_when_all_are_ready, ready, place), "abcd"))
            assert [path.name for path in place.parent.iterdir()] == ["_aot"]
            assert (place / "index").read_text() in "abcd"


def put_when_all_are_ready(ready: Barrier, place: Path, text: str) -> None:
    with workplace(place) as temporary:
        staging = make(temporary / "_aot", text)
        ready.wait()
        put_into_place(staging, place)
