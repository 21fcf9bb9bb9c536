"""The last step: the old folder or the new one, whole, and never none where folders can swap."""

from __future__ import annotations

import errno
import shutil
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


@pytest.mark.parametrize("is_moved", [True, False])
def test_what_a_build_left_that_was_killed_between_its_two_renames(
    tmp_path: Path, is_moved: bool
) -> None:
    """A folder that was moved away is put back; one that was replaced is not."""
    place = make(tmp_path / "_aot", "new")
    with workplace(place) as temporary:
        left = tmp_path / f"{temporary.name}-left"
    make(left / "replaced" / "_aot", "old")
    (left / ".aotbuild-lock").touch()
    if is_moved:
        shutil.rmtree(place)
    with workplace(place):
        assert (place / "index").read_text() == ("old" if is_moved else "new")
        assert not left.exists()


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


def test_an_old_folder_that_cannot_be_renamed_is_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in containers, where a lower layer has it."""
    place, real = make(tmp_path / "_aot", "old"), Path.rename

    def rename(self: Path, target: Path) -> Path:
        if self == place:
            raise OSError(errno.EXDEV, "Invalid cross-device link")
        return real(self, target)

    monkeypatch.setattr(placing, "_exchange", lambda one, other: False)
    monkeypatch.setattr(Path, "rename", rename)
    put(place, "new")
    assert [path.name for path in tmp_path.iterdir()] == ["_aot"]
    assert (place / "index").read_text() == "new"


def test_the_old_folder_returns_where_the_new_one_cannot_be_renamed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, real = make(tmp_path / "_aot", "old"), Path.rename

    def rename(self: Path, target: Path) -> Path:
        if target == place and "replaced" not in self.parts:
            raise OSError(errno.ENOTEMPTY if place.exists() else errno.EIO, "no", str(target))
        return real(self, target)

    monkeypatch.setattr(placing, "_exchange", lambda one, other: False)
    monkeypatch.setattr(Path, "rename", rename)
    with pytest.raises(OSError, match="no"):
        put(place, "new")
    assert [path.name for path in tmp_path.iterdir()] == ["_aot"]
    assert (place / "index").read_text() == "old"
