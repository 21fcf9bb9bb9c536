"""What AOTBUILD_STORE says: a folder, and what is behind it."""

from __future__ import annotations

from pathlib import Path

import pytest

from aotbuild.errors import PlanError
from aotbuild.store.place import StorePlace, store_place

HOME = {"HOME": "/home/u"}
USUAL = Path("/home/u/.cache/aotbuild/store")


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("", StorePlace(USUAL)),
        ("off", StorePlace()),
        ("/a", StorePlace(Path("/a"))),
        ("~/a", StorePlace(Path("/home/u/a"))),
        ("s3://bucket/a/", StorePlace(USUAL, "s3://bucket/a")),
        ("/a, gs://bucket", StorePlace(Path("/a"), "gs://bucket")),
        ("/a,/mnt/shared", StorePlace(Path("/a"), Path("/mnt/shared"))),
        ("simplecache::https://host/x", StorePlace(USUAL, "simplecache::https://host/x")),
    ],
)
def test_places(text: str, place: StorePlace) -> None:
    assert store_place({**HOME, "AOTBUILD_STORE": text}) == place


def test_the_usual_folder() -> None:
    assert store_place({**HOME, "XDG_CACHE_HOME": "/c"}) == StorePlace(Path("/c/aotbuild/store"))
    assert store_place({**HOME, "XDG_CACHE_HOME": "c"}) == StorePlace(USUAL)
    assert store_place({}) == StorePlace()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a", "a folder is an absolute path, found 'a'"),
        ("~other/a", "a folder is an absolute path"),
        ("/a,/a", "expected off, a folder, a URL of fsspec, or FOLDER,URL"),
        ("/a,/b,/c", "or FOLDER,URL, found '/a,/b,/c'"),
        ("s3://b,/a", "or FOLDER,URL"),
        ("s3://me:hunter2@b", "s3://…: expected a URL without user, password and query"),
        ("https://h/x?token=hunter2", "credentials go into the configuration of fsspec"),
    ],
)
def test_what_is_no_place(text: str, words: str) -> None:
    with pytest.raises(PlanError) as caught:
        store_place({**HOME, "AOTBUILD_STORE": text})
    assert words in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_a_url_needs_a_folder_in_front() -> None:
    with pytest.raises(PlanError, match="a URL needs a folder in front: set HOME"):
        store_place({"AOTBUILD_STORE": "s3://bucket"})
