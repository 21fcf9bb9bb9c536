"""The store of a build: what it fetches from behind its folder, writes back, and survives."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from aotbuild.errors import PlanError
from aotbuild.store import remote
from aotbuild.store.build_store import BuildStore, Counts, open_store
from aotbuild.store.entry import Entry, write_entry
from aotbuild.store.folder import Store, name_of
from aotbuild.store.keys import key_of

KEY, OTHER = key_of({"a": 1}), key_of({"a": 2})
ENTRY = Entry({"flops": 2.0}, b"code" * 500)


class Broken(MemoryFileSystem):
    """A file system that raises, or takes long, as `fault` says."""

    protocol = "broken"
    store: dict[str, Any] = {}  # noqa: RUF012 (fsspec's own form)
    pseudo_dirs = [""]  # noqa: RUF012
    fault: Any = None

    def cat_file(self, *args: Any, **kwargs: Any) -> Any:
        if self.fault is not None:
            self.fault()
        return super().cat_file(*args, **kwargs)

    def pipe_file(self, *args: Any, **kwargs: Any) -> Any:
        if self.fault is not None:
            self.fault()
        return super().pipe_file(*args, **kwargs)


fsspec.register_implementation("broken", Broken, clobber=True)


@pytest.fixture(autouse=True)
def empty() -> Iterator[None]:
    Broken.fault = None
    for store in (Broken.store, MemoryFileSystem.store):
        store.clear()
    yield
    Broken.fault = None


def opened(folder: Path, behind: object = "broken://shared") -> BuildStore:
    return open_store({"AOTBUILD_STORE": f"{folder},{behind}"})


def put_behind(key: str = KEY, raw: bytes | None = None) -> None:
    files, root = fsspec.url_to_fs("broken://shared")
    files.pipe_file(f"{root}/{name_of(key)}", raw or write_entry(key, ENTRY))


def raises(error: Exception) -> Any:
    def fault() -> None:
        raise error

    return staticmethod(fault)


@pytest.mark.parametrize("behind", ["broken://shared", "memory://shared", "a folder"])
def test_what_one_builder_makes_another_fetches(tmp_path: Path, behind: str) -> None:
    place = tmp_path / "shared" if behind == "a folder" else behind
    one = opened(tmp_path / "one", place)
    assert one.store.get(KEY) is None
    one.store.put(KEY, ENTRY)
    one.push()
    assert one.counts == Counts(made=1, pushed=1)
    other = opened(tmp_path / "other", place)
    assert other.store.get(KEY) == ENTRY
    other.push()
    assert other.counts == Counts(used=1, fetched=1)
    # It is in the folder now.
    assert Store(tmp_path / "other").get(KEY) == ENTRY


@pytest.mark.parametrize(
    "raw",
    [b"<html>", write_entry(KEY, ENTRY)[:-1], write_entry(OTHER, ENTRY)],
    ids=["another file", "a cut one", "another entry"],
)
def test_a_damaged_entry_is_a_miss_and_is_replaced(
    tmp_path: Path, raw: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    put_behind(raw=raw)
    store = opened(tmp_path / "front")
    assert store.store.get(KEY) is None
    store.store.put(KEY, ENTRY)
    store.push()
    (warning,) = caplog.messages
    assert warning.startswith(f"broken://shared: the entry {KEY} is damaged, and made again: ")
    assert opened(tmp_path / "other").store.get(KEY) == ENTRY


@pytest.mark.parametrize("error", [PermissionError("no"), RuntimeError("gone"), OSError(5, "io")])
def test_what_fails_is_left_alone_with_one_warning(
    tmp_path: Path, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    store = opened(tmp_path / "front")
    Broken.fault = raises(error)
    for key in (KEY, OTHER):
        assert store.store.get(key) is None
        store.store.put(key, ENTRY)
    store.push()
    (warning,) = caplog.messages
    words = f"broken://shared: left out for the rest of the build: {type(error).__name__}: "
    assert warning.startswith(words)
    assert store.counts == Counts(made=2)
    assert Store(tmp_path / "front").get(KEY) == ENTRY


def test_what_hangs_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(remote, "_LIMIT", 0.2)
    monkeypatch.setattr(remote, "_LARGEST", 0)
    store = opened(tmp_path / "front")
    Broken.fault = staticmethod(lambda: time.sleep(2))
    assert store.store.get(KEY) is None
    assert store.store.get(OTHER) is None
    (warning,) = caplog.messages
    assert warning.endswith("left out for the rest of the build: no answer within 0 s")


def test_no_store(tmp_path: Path) -> None:
    store = open_store({"AOTBUILD_STORE": "off"})
    store.store.put(KEY, ENTRY)
    store.push()
    assert (store.store.get(KEY), store.counts) == (None, Counts())
    assert list(tmp_path.iterdir()) == []


def test_a_scheme_that_nobody_knows(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="nope://x: expected a URL of fsspec"):
        opened(tmp_path, "nope://x")


def test_a_folder_of_others_is_told_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "store").mkdir(mode=0o777)
    (tmp_path / "store").chmod(0o777)
    for _ in range(2):
        open_store({"AOTBUILD_STORE": str(tmp_path / "store")})
    (warning,) = caplog.messages
    assert "everybody may write to it" in warning
