"""`aotbuild store`: what is there, pruning by last use, and checking."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from support.cli import invoke, run
from support.stores import document, keys_in, put, used_days_ago

from aotbuild.store.build_store import open_store
from aotbuild.store.folder import Folder

pytestmark = pytest.mark.usefixtures("store_root")


def removed(*args: object) -> set[str]:
    return {entry["key"] for entry in document("prune", *args)["removed"]}


class TestPrune:
    def test_by_age(self, store_root: Path) -> None:
        old, new = put(store_root, "old", days=31), put(store_root, "new", days=29)
        assert removed("--older-than", "30d") == {old}
        assert keys_in(store_root) == {new}

    def test_by_size_the_least_recently_used_first(self, store_root: Path) -> None:
        names = [put(store_root, str(days), days) for days in (3, 1, 4, 2)]
        found = document("prune", "--max-size", "2500B")
        assert [entry["key"] for entry in found["removed"]] == [names[2], names[0]]
        assert keys_in(store_root) == {names[1], names[3]}
        assert found["left"]["entries"] == 2
        assert found["left"]["size"] <= 2500

    def test_a_hit_is_a_use(self, store_root: Path) -> None:
        used, unused = put(store_root, "used", days=40), put(store_root, "unused", days=40)
        assert open_store(os.environ).store.get(used) is not None
        assert removed("--older-than", "30d") == {unused}

    def test_a_dry_run_removes_nothing(self, store_root: Path) -> None:
        old = put(store_root, "old", days=31)
        shown = run("store", "prune", "--older-than", "30d", "--dry-run").stdout
        assert shown.startswith("would remove 1 entry (1.17 kB)\n")
        assert removed("--older-than", "30d", "--dry-run") == {old}
        assert keys_in(store_root) == {old}

    def test_files_of_others_stay(self, store_root: Path) -> None:
        """Somebody may have named a folder that has other things in it."""
        key = put(store_root, "old", days=31)
        others = ["v1/ab/notes", f"v2/notes/{key}", f"v2/{key[:2]}/x"]
        others += ["v3/ab/abc", key]
        for name in others:
            (store_root / name).parent.mkdir(parents=True, exist_ok=True)
            (store_root / name).write_text("mine")
        assert removed("--max-size", "0") == {key}
        assert [name for name in others if not (store_root / name).exists()] == []

    @pytest.mark.parametrize(
        ("option", "value", "expected"),
        [
            ("--max-size", "5GX", "expected a size with a unit, as 5GB or 512MiB, found '5GX'"),
            ("--max-size", "5", "expected a size with a unit, as 5GB or 512MiB, found '5'"),
            ("--max-size", "-5GB", "expected one argument"),
            ("--older-than", "30", "expected an age, as 8w, 30d, 12h or 15m, found '30'"),
            ("--older-than", "d", "expected an age, as 8w, 30d, 12h or 15m, found 'd'"),
        ],
    )
    def test_limits_that_are_none(self, option: str, value: str, expected: str) -> None:
        result = run("store", "prune", option, value, code=2)
        assert f"aotbuild store prune: error: argument {option}: {expected}\n" in result.stderr

    @pytest.mark.parametrize(
        ("text", "size"), [("1.5kB", 1500), ("2 MiB", 2 << 20), ("3g", 3 * 10**9), ("7b", 7)]
    )
    def test_sizes(self, store_root: Path, text: str, size: int) -> None:
        put(store_root, "a", size=1600)
        assert bool(removed("--max-size", text)) == (size < 1700)

    def test_what_killed_builds_left_goes_after_a_day(self, store_root: Path) -> None:
        key = put(store_root, "a")
        left = [Folder(store_root).path(key).with_name(f".{key[:50]}.{n}") for n in "ab"]
        for path, days in zip(left, (0, 2), strict=True):
            path.write_bytes(b"half")
            used_days_ago(path, days)
        assert removed() == set()
        assert [path.exists() for path in left] == [True, False]


class TestInfo:
    def test_a_folder(self, store_root: Path) -> None:
        put(store_root, "a", days=3)
        put(store_root, "b", days=1)
        found = document("info")
        assert (found["folder"], found["behind"]) == (str(store_root), None)
        assert found["entries"] == 2
        assert found["first_used"] < found["last_used"]
        assert run("store", "info").stdout.startswith(f"{store_root}: 2 entries (2.33 kB)\n")

    def test_what_is_behind(self, store_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("AOTBUILD_STORE", f"{store_root},s3://bucket/prefix")
        shown = run("store", "info").stdout
        assert shown == f"{store_root}: 0 entries (0 B)\nbehind it: s3://bucket/prefix\n"

    def test_off(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("AOTBUILD_STORE", "off")
        assert run("store", "info").stdout == "no store: AOTBUILD_STORE is off\n"
        for name in ("prune", "verify"):
            assert run("store", name, code=2).stderr == (
                f"aotbuild store {name}: error: there is no store: AOTBUILD_STORE is off\n"
            )


class TestVerify:
    def test_damaged_ones(self, store_root: Path) -> None:
        keys = [put(store_root, name) for name in "abc"]
        for key, raw in zip(keys, (b"", None, None), strict=True):
            path = Folder(store_root).path(key)
            path.write_bytes(path.read_bytes()[:-1] if raw is None else raw)
        Folder(store_root).path(keys[2]).unlink()
        os.mkfifo(Folder(store_root).path(keys[2]))
        found = document("verify", code=5)
        assert {each["key"]: each["problem"] for each in found["failures"]} == {
            keys[0]: "it does not begin as an entry of the store does",
            keys[1]: "expected 1165 bytes, found 1164",
            keys[2]: "it cannot be read",
        }


def test_a_group_has_a_help_of_its_own() -> None:
    shown = invoke("store", "--help").stdout
    assert "Remove what was not used for long." in shown
    assert run("store", code=2).stderr.endswith("arguments are required: COMMAND\n")
