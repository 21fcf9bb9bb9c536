"""AOTBUILD_STORE: which layers it names, and what its errors and texts leave out."""

from __future__ import annotations

from pathlib import Path

import pytest

from aotbuild.errors import PlanError
from aotbuild.store.places import DEFAULT_TIMEOUT, Place, places, secrets_of

HOME = {"HOME": "/h"}


def of(text: str) -> tuple[Place, ...]:
    return places({**HOME, "AOTBUILD_STORE": text})


def test_without_the_variable_it_is_the_users_cache() -> None:
    assert places(HOME) == (Place(Path("/h/.cache/aotbuild/store")),)
    assert places({**HOME, "XDG_CACHE_HOME": "/c"}) == (Place(Path("/c/aotbuild/store")),)
    assert places({**HOME, "AOTBUILD_STORE": ""}) == places(HOME)
    assert places({}) == ()


def test_relative_folders_of_the_user_count_as_none() -> None:
    """The store would be in the project, and in its source distribution."""
    assert places({**HOME, "XDG_CACHE_HOME": "cache"}) == places(HOME)
    assert places({"HOME": "home"}) == ()


def test_off_is_no_layer() -> None:
    assert of("off") == ()


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("/s", Place(Path("/s"))),
        ("~/s?mode=ro", Place(Path("/h/s"), writable=False)),
        ("~", Place(Path("/h"))),
        ("file:///a%2Cb?mode=ro", Place(Path("/a,b"), writable=False)),
        ("file://localhost/a", Place(Path("/a"))),
        ("s3://bucket/prefix/", Place(url="s3://bucket/prefix")),
        ("S3://bucket?mode=ro", Place(url="S3://bucket", writable=False)),
        ("gs://b/p?mode=rw&timeout=0.5", Place(url="gs://b/p", timeout=0.5)),
        ("https://h/p", Place(url="https://h/p", writable=False)),
        (
            "https://h/p?sig=1&mode=ro&a=b%20c",
            Place(url="https://h/p", query="sig=1&a=b%20c", writable=False),
        ),
    ],
)
def test_a_layer(text: str, place: Place) -> None:
    assert of(text) == (place,)


def test_layers_keep_their_order() -> None:
    found = of(" /s , s3://b/p?mode=ro")
    assert found == (Place(Path("/s")), Place(url="s3://b/p", writable=False))
    assert found[1].timeout == DEFAULT_TIMEOUT


EXPECTED = "AOTBUILD_STORE: expected folders and URLs with commas between them, or off\n"
ABSOLUTE = "expected an absolute path or a URL, as {} or s3://bucket/prefix"
OWN_HOME = "expected ~/ for your own home, found {}: write an absolute path"
SECONDS = "timeout: expected seconds, more than 0 and at most 86,400"

OTHERS = "expected mode or timeout; fsspec's own options are in its configuration"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("/s,", "an empty item: expected a folder or a URL; off stands alone"),
        ("/s,off", "off: expected a folder or a URL; off stands alone"),
        ("/s?mode=w", "/s: mode: expected ro or rw"),
        ("/s?timeout=1", "/s: timeout: a folder has none"),
        ("http://h/p?mode=rw", "http://h/p: mode: http cannot be written; expected ro"),
        ("s3://b?timeout=0", f"s3://b: {SECONDS}"),
        ("s3://b?timeout=nan", f"s3://b: {SECONDS}"),
        ("s3://b?timeout=x", f"s3://b: {SECONDS}"),
        ("file://host/a", "file://host/a: expected file:/// and an absolute path"),
        ("s3://b/p?secret=hunter2", f"s3://b/p: the option secret: {OTHERS}"),
        ("s3://b/p?hunter2", f"s3://b/p: an option without a name: {OTHERS}"),
        ("s3://me:hunter2@b/p?mode=x", "s3://b/p: mode: expected ro or rw"),
        ("s3://me:hunt?er2@b/p", f"s3://…: an option without a name: {OTHERS}"),
        ("s3://me:hun/ter2@b/p?mode=x", "s3://b/p: mode: expected ro or rw"),
        ("store", f"store: {ABSOLUTE.format(Path('store').absolute())}"),
        ("./store", f"./store: {ABSOLUTE.format(Path('store').absolute())}"),
        ("s3//b/p", f"s3//b/p: {ABSOLUTE.format(Path('s3/b/p').absolute())}"),
        ("s3//me:hunter2@b/p", f"b/p: {ABSOLUTE.format(Path('b/p').absolute())}"),
        ("s3:/b/p", "s3:/b/p: expected a URL with two slashes, as s3://…"),
        ("s3:/me:hunter2@b/p", "s3:/b/p: expected a URL with two slashes, as s3://…"),
        ("~somebody/s", f"~somebody/s: {OWN_HOME.format('~somebody')}"),
        ("s3://", "s3://: expected the bucket after s3://"),
        ("gs:///p", "gs:///p: expected the bucket after gs://"),
        ("az://?mode=ro", "az://: expected the container after az://"),
        ("https:///p", "https:///p: expected the host after https://"),
        ("memory://", "memory://: expected the path after memory://"),
        ("file:///a%00b", "file:///a%00b: expected a path, found one with a zero byte"),
        ("s3://b/p?timeout=1e308", f"s3://b/p: {SECONDS}"),
        ("s3://b/p?timeout=٣", f"s3://b/p: {SECONDS}"),
        ("/s,/s/?mode=ro", "/s: it is named twice"),
        ("/s,file:///s", "/s: it is named twice"),
        ("s3://b/p,s3://b/p/", "s3://b/p: it is named twice"),
    ],
)
def test_what_is_malformed_is_told_without_secrets(text: str, problem: str) -> None:
    with pytest.raises(PlanError) as caught:
        of(text)
    assert str(caught.value) == f"{EXPECTED}  {problem}"


def test_a_home_that_is_not_known() -> None:
    with pytest.raises(PlanError) as caught:
        places({"AOTBUILD_STORE": "~/s"})
    assert str(caught.value).endswith(
        "~/s: expected ~/ for your own home, HOME is not set: write an absolute path"
    )


def test_a_web_server_behind_another_file_system_is_read_only() -> None:
    (place,) = of("simplecache::https://h/p")
    assert not place.writable


def test_all_problems_are_told_at_once() -> None:
    with pytest.raises(PlanError) as caught:
        of("/s?mode=x,s3://b?timeout=x")
    assert str(caught.value).count("\n  ") == 2


@pytest.mark.parametrize(
    ("text", "shown", "secrets"),
    [
        ("s3://key:sec%2Fret@b/p", "s3://b/p", ["sec%2Fret", "sec/ret", "key"]),
        ("https://h/p?sig=a%20bc&x=1", "https://h/p", ["sig=a%20bc&x=1", "a%20bc", "a bc"]),
    ],
)
def test_a_layers_text_has_no_secrets(text: str, shown: str, secrets: list[str]) -> None:
    (place,) = of(text)
    assert str(place) == shown
    assert set(secrets) - {"key"} <= set(secrets_of(place))
    for secret in secrets:
        assert secret not in repr(place)
