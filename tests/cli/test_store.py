"""`aotbuild store`: what is there, and pruning by last use."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from support.cli import invoke, run
from support.signing import keys, public_file
from support.stores import DAY, document, keys_in, put, used_days_ago

from aotbuild.store.entry import Entry, write_entry
from aotbuild.store.folder import Folder
from aotbuild.store.keys import key_of
from aotbuild.store.layers import open_store

A, B = keys(2)
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
        with open_store(os.environ) as store:
            assert store.store.get(used) is not None
        assert removed("--older-than", "30d") == {unused}

    def test_both_limits(self, store_root: Path) -> None:
        names = [put(store_root, str(days), days) for days in (1, 2, 50)]
        assert removed("--older-than", "30d", "--max-size", "1.5kB") == {names[1], names[2]}

    def test_nothing_is_left_of_size_0(self, store_root: Path) -> None:
        names = {put(store_root, str(number)) for number in range(3)}
        assert removed("--max-size", "0") == names
        assert keys_in(store_root) == set()

    def test_a_dry_run_removes_nothing(self, store_root: Path) -> None:
        old = put(store_root, "old", days=31)
        shown = run("store", "prune", "--older-than", "30d", "--dry-run").stdout
        assert shown.startswith("would remove 1 entry (1.17 kB) and 0 leftovers (0 B)\n")
        assert removed("--older-than", "30d", "--dry-run") == {old}
        assert keys_in(store_root) == {old}

    def test_without_limits_only_leftovers_go(self, store_root: Path) -> None:
        key = put(store_root, "old", days=4000)
        aside = Folder(store_root).path(key).with_suffix(".damaged")
        first = store_root / "v1" / key[:2] / key
        half = first.with_name(f".{key[:50]}.0123456789abcdef")
        for path in (aside, first, half):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"x")
        assert sorted(document("prune")["leftovers"]) == sorted(map(str, (aside, first, half)))
        assert keys_in(store_root) == {key}
        assert not (store_root / "v1").exists()

    def test_files_of_others_stay(self, store_root: Path) -> None:
        """Somebody may have named a folder that has other things in it."""
        key = put(store_root, "old", days=31)
        others = ["v1/ab/notes", f"v1/{key}", f"v1/notes/{key}", f"v2/zz/{key}", f"v2/{key[:2]}/x"]
        others += [f"v2/00/{key}", "v3/ab/abc", key]
        for name in others:
            (store_root / name).parent.mkdir(parents=True, exist_ok=True)
            (store_root / name).write_text("mine")
        assert removed("--max-size", "0") == {key}
        assert [name for name in others if not (store_root / name).exists()] == []

    def test_links_out_of_the_store_are_not_followed(
        self, store_root: Path, tmp_path: Path
    ) -> None:
        key = put(tmp_path / "elsewhere", "old", days=31)
        outside = Folder(tmp_path / "elsewhere").path(key)
        (store_root / "v2").mkdir(parents=True)
        (store_root / "v2" / key[:2]).symlink_to(outside.parent)
        assert removed("--max-size", "0") == set()
        link = store_root / "v2" / "ff" / ("ff" + key[2:])
        link.parent.mkdir()
        link.symlink_to(outside)
        assert removed("--max-size", "0") == {link.name}
        assert outside.exists()

    def test_a_store_that_is_a_link(self, store_root: Path, tmp_path: Path) -> None:
        key = put(tmp_path / "disk", "old", days=31)
        store_root.symlink_to(tmp_path / "disk")
        assert removed("--older-than", "30d") == {key}

    def test_no_folder_is_an_empty_store(self) -> None:
        assert document("prune", "--max-size", "0")["left"] == {"entries": 0, "size": 0}

    def test_a_folder_that_is_named_must_be_there(self, store_root: Path, tmp_path: Path) -> None:
        """Or a typo in a script would look like an empty store."""
        put(store_root, "a")
        gone, found = tmp_path / "typo", "No such file or directory"
        for name in ("list", "prune", "verify", "push", "pull"):
            for layer in ("typo", f"file://{gone}"):
                assert run("store", name, layer, code=2).stderr == (
                    f"aotbuild store {name}: error: LAYER: {gone}: {found}; "
                    "expected a folder that is there\n"
                )
            assert "LAYER: an empty item: " in run("store", name, "", code=2).stderr
        assert not gone.exists()

    def test_another_folder(self, store_root: Path, tmp_path: Path) -> None:
        put(store_root, "here", days=31)
        there = put(tmp_path / "other", "there", days=31)
        assert removed("other", "--older-than", "30d") == {there}

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


class TestClockJumps:
    def test_a_last_use_in_the_future_is_one_now(self, store_root: Path) -> None:
        """Or the entry would be the last to go for years."""
        future, today = put(store_root, "future", days=-5000), put(store_root, "today", days=1)
        assert removed("--older-than", "30d") == set()
        assert abs(Folder(store_root).path(future).stat().st_mtime - time.time()) < DAY
        used_days_ago(Folder(store_root).path(future), 31)
        assert removed("--older-than", "30d") == {future}
        assert keys_in(store_root) == {today}

    def test_entries_of_1970_are_the_oldest(self, store_root: Path) -> None:
        first, today = put(store_root, "first"), put(store_root, "today")
        os.utime(Folder(store_root).path(first), (0, 0))
        found = {entry["key"]: entry["used"] for entry in document("list")["entries"]}
        assert found[first] == "1970-01-01T00:00:00Z"
        assert removed("--max-size", "1500B") == {first}
        assert keys_in(store_root) == {today}

    @pytest.mark.parametrize("seconds", [-(2**33), 2**33])
    def test_times_of_other_centuries_are_shown(self, store_root: Path, seconds: int) -> None:
        key = put(store_root, "odd")
        try:
            os.utime(Folder(store_root).path(key), (seconds, seconds))
        except OSError:
            pytest.skip("this file system has no such times")
        assert len(document("list")["entries"]) == 1
        assert document("info")["layers"][0]["entries"] == 1
        run("store", "prune", "--older-than", "1d")


class TestShown:
    def test_info(self, store_root: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        put(store_root, "a", days=3)
        put(store_root, "b", days=1)
        put(tmp_path / "other", "a")
        monkeypatch.setenv("AOTBUILD_STORE", f"{store_root},{tmp_path / 'other'}?mode=ro")
        front, behind = document("info")["layers"]
        assert (front["layer"], front["mode"], front["entries"]) == (str(store_root), "rw", 2)
        assert front["first_used"] < front["last_used"]
        assert (behind["layer"], behind["mode"]) == (str(tmp_path / "other"), "ro")
        assert (behind["entries"], behind["leftovers"], behind["problem"]) == (1, 0, None)
        layers, kinds = run("store", "info").stdout.split("\n\n")
        header, *rows = layers.splitlines()
        assert header.split()[:4] == ["LAYER", "MODE", "ENTRIES", "SIZE"]
        assert [row.split()[1:3] for row in rows] == [["rw", "2"], ["ro", "1"]]
        assert [row.split()[:3] for row in kinds.splitlines()] == [
            ["LAYER", "KIND", "ENTRIES"],
            [str(store_root), "other", "2"],
            [str(tmp_path / "other"), "other", "1"],
        ]

    def test_info_counts_kinds(self, store_root: Path) -> None:
        kinds = {
            "executable": {"requires": {}},
            "golden": {"finite": True},
            "direct index": {"entry": "direct index"},
            "other": {},
        }
        for number, (kind, facts) in enumerate(kinds.items()):
            for each in range(number + 1):
                key = key_of({"kind": kind, "each": each})
                Folder(store_root).write(key, write_entry(key, Entry(facts, b"\n\n")))
        found = document("info")["layers"][0]["kinds"]
        assert {kind: row["entries"] for kind, row in found.items()} == {
            kind: number + 1 for number, kind in enumerate(kinds)
        }
        assert sum(row["size"] for row in found.values()) == document("info")["layers"][0]["size"]

    def test_info_names_keys(self, store_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("AOTBUILD_STORE_TRUST", str(public_file(Path("a.pub.pem"), A)))
        Path("b.pem").write_bytes(B.private_pem(None))
        monkeypatch.setenv("AOTBUILD_STORE_KEY", "b.pem")
        found = document("info")
        assert (found["trusted"], found["signer"]) == ([A.key_id], B.key_id)
        shown = run("store", "info").stdout
        assert f"trusted: {A.key_id}\nsigns what is pushed: {B.key_id}\n" in shown

    def test_list(self, store_root: Path) -> None:
        names = [put(store_root, str(days), days, size=10 * days) for days in (3, 1, 2)]
        assert [entry["key"] for entry in document("list")["entries"]] == [
            names[1],
            names[2],
            names[0],
        ]
        rows = run("store", "list").stdout.splitlines()
        assert rows[0].split() == ["KEY", "KIND", "SIZE", "USED"]
        assert [row.split()[0] for row in rows[1:]] == [names[1], names[2], names[0]]

    def test_list_says_what_each_is(self, store_root: Path) -> None:
        key = put(store_root, "a")
        golden = key_of({"name": "golden"})
        Folder(store_root).write(golden, write_entry(golden, Entry({"finite": True}, b"")))
        found = {entry["key"]: entry["kind"] for entry in document("list")["entries"]}
        assert found == {key: "other", golden: "golden"}
        assert " golden " in run("store", "list").stdout

    def test_off(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("AOTBUILD_STORE", "off")
        assert run("store", "info").stdout == "no store: AOTBUILD_STORE is off\n"
        for name in ("list", "prune", "verify"):
            assert run("store", name, code=2).stderr == (
                f"aotbuild store {name}: error: AOTBUILD_STORE names no folder: it is off\n"
            )

    def test_a_group_has_a_help_of_its_own(self) -> None:
        shown = invoke("store", "--help").stdout
        assert "prune     Remove what was not used for long." in shown
        assert run("store", code=2).stderr.endswith("arguments are required: COMMAND\n")
