"""How long jobs took, in the layers of a store; and who builds what, once it is written down."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.signing import keys, public_file

from aotbuild.errors import PlanError
from aotbuild.format.canonical import sha256_hex
from aotbuild.store.contents import survey
from aotbuild.store.entry import Entry
from aotbuild.store.folder import Folder
from aotbuild.store.keys import key_of
from aotbuild.store.layers import Layers, open_store
from aotbuild.store.local import Store
from aotbuild.store.times import Times, times_of

A, B, C = (key_of({"job": name}) for name in "abc")
INPUTS = {"plan": ["f(1)", "f(2)"], "of": 2}


def layers(*folders: Path | str) -> Layers:
    return open_store({"AOTBUILD_STORE": ",".join(map(str, folders)) or "off"})


def test_what_was_kept_is_known(tmp_path: Path) -> None:
    times = Times(layers(tmp_path / "store"))
    assert times.here([A, B]) == {}
    times.keep({A: 1.23456, B: 0.5})
    assert Times(layers(tmp_path / "store")).here([A, B, C]) == {A: 1.235, B: 0.5}
    assert times.shared([C, B]) == {B: 0.5}


def test_the_first_time_stays(tmp_path: Path) -> None:
    times = Times(layers(tmp_path / "store"))
    times.keep({A: 1.0})
    times.keep({A: 9.0, B: 2.0})
    assert times.here([A, B]) == {A: 1.0, B: 2.0}


def test_they_count_as_nothing(tmp_path: Path) -> None:
    with layers(tmp_path / "front", tmp_path / "shared") as store:
        times = Times(store)
        times.keep({A: 1.0})
        times.here([A])
        store.push()
        counts = store.counts
    assert (counts.used, counts.made, counts.pushed) == (0, 0, 0)
    assert Times(layers(tmp_path / "shared")).here([A]) == {A: 1.0}


def test_what_all_share_is_in_the_farthest_layer(tmp_path: Path) -> None:
    front, behind = tmp_path / "front", tmp_path / "shared"
    Times(layers(front)).keep({A: 1.0, B: 1.0})
    Times(layers(behind)).keep({A: 5.0})
    times = Times(layers(front, behind))
    assert times.here([A, B]) == {A: 1.0, B: 1.0}
    assert times.shared([A, B]) == {A: 5.0}


def test_times_of_earlier_builds_are_pushed_to_a_new_layer(tmp_path: Path) -> None:
    front, behind = tmp_path / "front", tmp_path / "shared"
    Times(layers(front)).keep({A: 1.0})
    with layers(front, behind) as store:
        Times(store).here([A])
        store.push()
    assert Times(layers(behind)).here([A]) == {A: 1.0}


def test_they_may_be_missing_or_damaged(tmp_path: Path) -> None:
    root = tmp_path / "store"
    times = Times(layers(root))
    times.keep({A: 1.0, B: 2.0})
    Folder(root).path(A).write_bytes(b"damaged")
    assert times.here([A, B]) == times.shared([A, B]) == {B: 2.0}
    times.keep({A: 3.0})
    assert times.here([A]) == {A: 3.0}


@pytest.mark.parametrize(
    "facts",
    [{}, *({"seconds": found} for found in (None, "1", True, [1.0], -1.0, 10**400))],
    ids=str,
)
def test_a_time_that_is_none(tmp_path: Path, facts: dict[str, object]) -> None:
    """It counts as no entry in each layer, and the next time takes its place."""
    front, behind = tmp_path / "front", tmp_path / "shared"
    for folder in (front, behind):
        Store(folder).put(A, Entry(facts, b""))
    with layers(front, behind) as store:
        times = Times(store)
        assert times.shared([A]) == times.here([A]) == {}
        times.keep({A: 2.0})
        store.push()
    assert Times(layers(front)).here([A]) == Times(layers(behind)).here([A]) == {A: 2.0}


@pytest.mark.parametrize("seconds", ["NaN", "Infinity", "-Infinity"])
def test_seconds_that_no_json_has(tmp_path: Path, seconds: str) -> None:
    write_raw(tmp_path / "store", A, f'{{"seconds":{seconds}}}\n'.encode())
    times = Times(layers(tmp_path / "store"))
    assert times.shared([A]) == times.here([A]) == {}


def write_raw(root: Path, key: str, body: bytes) -> None:
    head = f"aotbuild-entry 2\nkey {key}\nbody {len(body)} {sha256_hex(body)}\n\n"
    Folder(root).write(key, head.encode() + body)


@pytest.mark.parametrize(
    "numbers", [None, "12", [1], [1, 3], [0, 1], [1.0, 2.0], [[1], 2], {"1": 2}], ids=str
)
def test_a_split_that_is_none(tmp_path: Path, numbers: object) -> None:
    """It counts as none, and that of the next shard takes its place."""
    behind = tmp_path / "shared"
    with layers(tmp_path / "one", behind) as store:
        times = Times(store)
        times.keep_split(INPUTS, [1, 2])
    for item in survey(behind).entries:
        Store(behind).put(item.key, Entry({"numbers": numbers}, b""))
    with layers(tmp_path / "two", behind) as store:
        times = Times(store)
        assert times.split_of(INPUTS, 2, 2) is None
        times.keep_split(INPUTS, [2, 1])
    assert Times(layers(behind)).split_of(INPUTS, 2, 2) == [2, 1]


def test_the_folder_in_front_needs_no_signatures(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Also where it is the farthest layer, as behind one that is only read."""
    front, mirror = tmp_path / "front", tmp_path / "mirror"
    Times(layers(front)).keep({A: 1.0})
    key = public_file(tmp_path / "a.pub.pem", keys(1)[0])
    named = {"AOTBUILD_STORE": f"{mirror}?mode=ro,{front}", "AOTBUILD_STORE_TRUST": str(key)}
    with open_store(named) as store:
        assert Times(store).shared([A]) == {A: 1.0}
    assert caplog.text == ""


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "store").write_text("a file")
    times = Times(layers(tmp_path / "store"))
    times.keep({A: 1.0})
    times.keep_split(INPUTS, [1, 2])
    assert times.here([A]) == times.shared([A]) == {}
    assert times.split_of(INPUTS, 2, 2) is None


def test_without_a_store_nothing_is_known() -> None:
    times = Times(layers())
    times.keep({A: 1.0})
    times.keep_split(INPUTS, [1, 2])
    assert times.here([A]) == times.shared([A]) == {}
    assert times.split_of(INPUTS, 2, 2) is None


def test_a_split_is_there_for_others_at_once(tmp_path: Path) -> None:
    behind = tmp_path / "shared"
    first = Times(layers(tmp_path / "one", behind))
    assert first.split_of(INPUTS, 2, 2) is None
    first.keep_split(INPUTS, [2, 1])
    assert Times(layers(tmp_path / "two", behind)).split_of(INPUTS, 2, 2) == [2, 1]
    assert first.split_of({**INPUTS, "of": 3}, 2, 3) is None


def test_switched_off(tmp_path: Path) -> None:
    on = times_of(layers(tmp_path / "store"), {"AOTBUILD_TIMES": ""})
    on.keep({A: 1.0})
    on.keep_split(INPUTS, [2, 1])
    off = times_of(layers(tmp_path / "store"), {"AOTBUILD_TIMES": "off"})
    off.keep({B: 1.0})
    off.keep_split({"of": 1}, [1])
    assert off.here([A]) == off.shared([A]) == {}
    assert off.split_of(INPUTS, 2, 2) is None
    assert on.here([A, B]) == {A: 1.0}
    assert on.split_of({"of": 1}, 1, 1) is None


def test_the_variable() -> None:
    with pytest.raises(PlanError) as caught:
        times_of(layers(), {"AOTBUILD_TIMES": "no"})
    expected = "AOTBUILD_TIMES: expected on or off, found 'no'"
    assert str(caught.value) == expected
