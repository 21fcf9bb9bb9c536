"""`aotbuild store`: what is there, pruning by last use, and checking entries and signatures."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from support.cli import invoke, run
from support.signing import keys, public_file

from aotbuild.spec.keys import SigningKey
from aotbuild.store.entry import Entry, read_head, with_seals, write_entry
from aotbuild.store.folder import Folder
from aotbuild.store.index import Index, Row
from aotbuild.store.keys import index_key, key_of
from aotbuild.store.layers import open_store

DAY = 86400.0
A, B = keys(2)


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store, the current one; nothing is in it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AOTBUILD_STORE", str(tmp_path / "store"))
    return tmp_path / "store"


def put(root: Path, name: str, days: float = 0, size: int = 1000) -> str:
    """Put an entry of about `size` bytes that was last used some days ago; return its key."""
    key = key_of({"name": name})
    Folder(root).write(key, write_entry(key, Entry({}, bytes(size))))
    used_days_ago(Folder(root).path(key), days)
    return key


def used_days_ago(path: Path, days: float) -> None:
    when = time.time() - days * DAY
    os.utime(path, (when, when))


def document(*args: object, code: int = 0) -> Any:
    return json.loads(run("store", *args, "--json", code=code).stdout)


def keys_in(root: Path) -> set[str]:
    return {path.name for path in (root / "v2").glob("*/*")}


def removed(*args: object) -> set[str]:
    return {entry["key"] for entry in document("prune", *args)["removed"]}


class TestPrune:
    def test_by_age(self, root: Path) -> None:
        old, new = put(root, "old", days=31), put(root, "new", days=29)
        assert removed("--older-than", "30d") == {old}
        assert keys_in(root) == {new}

    def test_by_size_the_least_recently_used_first(self, root: Path) -> None:
        names = [put(root, str(days), days) for days in (3, 1, 4, 2)]
        found = document("prune", "--max-size", "2500B")
        assert [entry["key"] for entry in found["removed"]] == [names[2], names[0]]
        assert keys_in(root) == {names[1], names[3]}
        assert found["left"]["entries"] == 2
        assert found["left"]["size"] <= 2500

    def test_a_hit_is_a_use(self, root: Path) -> None:
        used, unused = put(root, "used", days=40), put(root, "unused", days=40)
        with open_store(os.environ) as store:
            assert store.store.get(used) is not None
        assert removed("--older-than", "30d") == {unused}

    def test_both_limits(self, root: Path) -> None:
        names = [put(root, str(days), days) for days in (1, 2, 50)]
        assert removed("--older-than", "30d", "--max-size", "1.5kB") == {names[1], names[2]}

    def test_nothing_is_left_of_size_0(self, root: Path) -> None:
        names = {put(root, str(number)) for number in range(3)}
        assert removed("--max-size", "0") == names
        assert keys_in(root) == set()

    def test_a_dry_run_removes_nothing(self, root: Path) -> None:
        old = put(root, "old", days=31)
        shown = run("store", "prune", "--older-than", "30d", "--dry-run").stdout
        assert shown.startswith("would remove 1 entry (1.17 kB) and 0 leftovers (0 B)\n")
        assert removed("--older-than", "30d", "--dry-run") == {old}
        assert keys_in(root) == {old}

    def test_without_limits_only_leftovers_go(self, root: Path) -> None:
        key = put(root, "old", days=4000)
        aside = Folder(root).path(key).with_suffix(".damaged")
        first = root / "v1" / key[:2] / key
        half = first.with_name(f".{key[:50]}.0123456789abcdef")
        for path in (aside, first, half):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"x")
        assert sorted(document("prune")["leftovers"]) == sorted(map(str, (aside, first, half)))
        assert keys_in(root) == {key}
        assert not (root / "v1").exists()

    def test_files_of_others_stay(self, root: Path) -> None:
        """Somebody may have named a folder that has other things in it."""
        key = put(root, "old", days=31)
        others = ["v1/ab/notes", f"v1/{key}", f"v1/notes/{key}", f"v2/zz/{key}", f"v2/{key[:2]}/x"]
        others += [f"v2/00/{key}", "v3/ab/abc", key]
        for name in others:
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text("mine")
        assert removed("--max-size", "0") == {key}
        assert [name for name in others if not (root / name).exists()] == []

    def test_links_out_of_the_store_are_not_followed(self, root: Path, tmp_path: Path) -> None:
        key = put(tmp_path / "elsewhere", "old", days=31)
        outside = Folder(tmp_path / "elsewhere").path(key)
        (root / "v2").mkdir(parents=True)
        (root / "v2" / key[:2]).symlink_to(outside.parent)
        assert removed("--max-size", "0") == set()
        link = root / "v2" / "ff" / ("ff" + key[2:])
        link.parent.mkdir()
        link.symlink_to(outside)
        assert removed("--max-size", "0") == {link.name}
        assert outside.exists()

    def test_a_store_that_is_a_link(self, root: Path, tmp_path: Path) -> None:
        key = put(tmp_path / "disk", "old", days=31)
        root.symlink_to(tmp_path / "disk")
        assert removed("--older-than", "30d") == {key}

    def test_no_folder_is_an_empty_store(self) -> None:
        assert document("prune", "--max-size", "0")["left"] == {"entries": 0, "size": 0}

    def test_a_folder_that_is_named_must_be_there(self, root: Path, tmp_path: Path) -> None:
        """Or a typo in a script would look like an empty store."""
        put(root, "a")
        gone, found = tmp_path / "typo", "No such file or directory"
        for name in ("list", "prune", "verify", "push", "pull"):
            for layer in ("typo", f"file://{gone}"):
                assert run("store", name, layer, code=2).stderr == (
                    f"aotbuild store {name}: error: LAYER: {gone}: {found}; "
                    "expected a folder that is there\n"
                )
            assert "LAYER: an empty item: " in run("store", name, "", code=2).stderr
        assert not gone.exists()

    def test_another_folder(self, root: Path, tmp_path: Path) -> None:
        put(root, "here", days=31)
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
    def test_sizes(self, root: Path, text: str, size: int) -> None:
        put(root, "a", size=1600)
        assert bool(removed("--max-size", text)) == (size < 1700)


class TestClockJumps:
    def test_a_last_use_in_the_future_is_one_now(self, root: Path) -> None:
        """Or the entry would be the last to go for years."""
        future, today = put(root, "future", days=-5000), put(root, "today", days=1)
        assert removed("--older-than", "30d") == set()
        assert abs(Folder(root).path(future).stat().st_mtime - time.time()) < DAY
        used_days_ago(Folder(root).path(future), 31)
        assert removed("--older-than", "30d") == {future}
        assert keys_in(root) == {today}

    def test_entries_of_1970_are_the_oldest(self, root: Path) -> None:
        first, today = put(root, "first"), put(root, "today")
        os.utime(Folder(root).path(first), (0, 0))
        found = {entry["key"]: entry["used"] for entry in document("list")["entries"]}
        assert found[first] == "1970-01-01T00:00:00Z"
        assert removed("--max-size", "1500B") == {first}
        assert keys_in(root) == {today}

    @pytest.mark.parametrize("seconds", [-(2**33), 2**33])
    def test_times_of_other_centuries_are_shown(self, root: Path, seconds: int) -> None:
        key = put(root, "odd")
        try:
            os.utime(Folder(root).path(key), (seconds, seconds))
        except OSError:
            pytest.skip("this file system has no such times")
        assert len(document("list")["entries"]) == 1
        assert document("info")["layers"][0]["entries"] == 1
        run("store", "prune", "--older-than", "1d")


class TestShown:
    def test_info(self, root: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        put(root, "a", days=3)
        put(root, "b", days=1)
        put(tmp_path / "other", "a")
        monkeypatch.setenv("AOTBUILD_STORE", f"{root},{tmp_path / 'other'}?mode=ro")
        front, behind = document("info")["layers"]
        assert (front["layer"], front["mode"], front["entries"]) == (str(root), "rw", 2)
        assert front["first_used"] < front["last_used"]
        assert (behind["layer"], behind["mode"]) == (str(tmp_path / "other"), "ro")
        assert (behind["entries"], behind["leftovers"], behind["problem"]) == (1, 0, None)
        layers, kinds = run("store", "info").stdout.split("\n\n")
        header, *rows = layers.splitlines()
        assert header.split()[:4] == ["LAYER", "MODE", "ENTRIES", "SIZE"]
        assert [row.split()[1:3] for row in rows] == [["rw", "2"], ["ro", "1"]]
        assert [row.split()[:3] for row in kinds.splitlines()] == [
            ["LAYER", "KIND", "ENTRIES"],
            [str(root), "other", "2"],
            [str(tmp_path / "other"), "other", "1"],
        ]

    def test_info_counts_kinds(self, root: Path) -> None:
        kinds = {
            "executable": {"requires": {}},
            "golden": {"finite": True},
            "direct index": {"entry": "direct index"},
            "other": {},
        }
        for number, (kind, facts) in enumerate(kinds.items()):
            for each in range(number + 1):
                key = key_of({"kind": kind, "each": each})
                Folder(root).write(key, write_entry(key, Entry(facts, b"\n\n")))
        found = document("info")["layers"][0]["kinds"]
        assert {kind: row["entries"] for kind, row in found.items()} == {
            kind: number + 1 for number, kind in enumerate(kinds)
        }
        assert sum(row["size"] for row in found.values()) == document("info")["layers"][0]["size"]

    def test_info_names_keys(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("AOTBUILD_STORE_TRUST", str(public_file(Path("a.pub.pem"), A)))
        Path("b.pem").write_bytes(B.private_pem(None))
        monkeypatch.setenv("AOTBUILD_STORE_KEY", "b.pem")
        found = document("info")
        assert (found["trusted"], found["signer"]) == ([A.key_id], B.key_id)
        shown = run("store", "info").stdout
        assert f"trusted: {A.key_id}\nsigns what is pushed: {B.key_id}\n" in shown

    def test_list(self, root: Path) -> None:
        names = [put(root, str(days), days, size=10 * days) for days in (3, 1, 2)]
        assert [entry["key"] for entry in document("list")["entries"]] == [
            names[1],
            names[2],
            names[0],
        ]
        rows = run("store", "list").stdout.splitlines()
        assert rows[0].split() == ["KEY", "KIND", "SIZE", "USED"]
        assert [row.split()[0] for row in rows[1:]] == [names[1], names[2], names[0]]

    def test_list_says_what_each_is(self, root: Path) -> None:
        key = put(root, "a")
        golden = key_of({"name": "golden"})
        Folder(root).write(golden, write_entry(golden, Entry({"finite": True}, b"")))
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


class TestCopy:
    """`push` and `pull` between the first folder and another layer."""

    @pytest.fixture(autouse=True)
    def other(self, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        monkeypatch.setenv("AOTBUILD_STORE", f"{root},{tmp_path / 'other'}")
        return tmp_path / "other"

    def copied(self, command: str, *args: object, code: int = 0) -> Any:
        (layer,) = document(command, *args, code=code)["layers"]
        return layer

    def test_push(self, root: Path, other: Path) -> None:
        keys = {put(root, "a"), put(root, "b")}
        found = self.copied("push")
        assert (found["layer"], found["copied"], found["present"]) == (str(other), 2, 0)
        assert keys_in(other) == keys
        put(root, "c")
        shown = run("store", "push").stdout
        assert shown == f"{other}: copied 1 entry (1.17 kB); 2 were there\n"

    def test_pull(self, root: Path, other: Path) -> None:
        key = put(other, "a")
        assert self.copied("pull")["copied"] == 1
        assert keys_in(root) == {key}
        assert self.copied("pull")["present"] == 1

    def test_a_layer_that_is_not_there_is_not_pulled(self, other: Path) -> None:
        assert run("store", "pull", code=6).stderr == f"{other}: No such file or directory\n"

    def test_a_layer_that_is_named(self, root: Path, other: Path, tmp_path: Path) -> None:
        key = put(root, "a")
        (tmp_path / "third").mkdir()
        run("store", "push", "third")
        assert (keys_in(tmp_path / "third"), keys_in(other)) == ({key}, set())

    def test_only_recent_ones(self, root: Path, other: Path) -> None:
        put(root, "old", days=2)
        new = put(root, "new")
        assert self.copied("push", "--newer-than", "1d")["copied"] == 1
        assert keys_in(other) == {new}

    def test_entries_of_this_machine_stay(self, root: Path, other: Path) -> None:
        """Direct mode keeps entries with paths that mean nothing elsewhere."""
        key = key_of({"name": "here"})
        Folder(root).write(key, write_entry(key, Entry({"local": True}, b"")))
        assert self.copied("push")["copied"] == 0
        assert not other.exists()

    def test_entries_of_other_machines_stay_there(self, root: Path, other: Path) -> None:
        key = key_of({"name": "there"})
        Folder(other).write(key, write_entry(key, Entry({"local": True}, b"")))
        assert self.copied("pull")["copied"] == 0
        assert keys_in(root) == set()

    def test_indexes_get_what_they_lack(self, root: Path, other: Path) -> None:
        """The index of direct mode is the one entry that layers have in different forms."""
        put_index(root, "a", "here")
        put_index(other, "b")
        assert self.copied("push")["copied"] == 1
        assert rows_in(other) == [ROWS["b"], ROWS["a"]]
        found = self.copied("push")
        assert (found["copied"], found["present"]) == (0, 1)
        assert self.copied("pull")["copied"] == 1
        assert rows_in(root) == [ROWS["a"], ROWS["here"], ROWS["b"]]
        assert (self.copied("pull")["copied"], self.copied("pull")["present"]) == (0, 1)
        for command in ("verify", "list"):
            run("store", command, other)

    def test_only_trusted_rows_are_signed(
        self, root: Path, other: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        put_index(root, "a")
        put_index(other, "b")
        Path("a.pem").write_bytes(A.private_pem(None))
        monkeypatch.setenv("AOTBUILD_STORE_KEY", "a.pem")
        assert self.copied("push")["copied"] == 1
        assert rows_in(other) == [ROWS["a"]]
        run("store", "verify", other)
        assert self.copied("push")["copied"] == 0
        assert self.copied("push", "--again")["copied"] == 1

    def test_damaged_entries_are_not_copied(self, root: Path, other: Path) -> None:
        bad, good = put(root, "bad"), put(root, "good")
        Folder(root).path(bad).write_bytes(b"x")
        (failure,) = self.copied("push", code=14)["failures"]
        assert failure["key"] == bad
        assert keys_in(other) == {good}
        bad = put(other, "worse")
        Folder(other).path(bad).write_bytes(b"x")
        shown = run("store", "pull", code=14).stdout
        assert f"FAIL: {bad}: it does not begin as an entry of the store does\n" in shown
        assert bad not in keys_in(root)

    def test_what_is_pushed_is_signed(
        self, root: Path, other: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        key = put(root, "a")
        run("store", "push")
        Path("a.pem").write_bytes(A.private_pem(None))
        monkeypatch.setenv("AOTBUILD_STORE_KEY", "a.pem")
        assert self.copied("push")["copied"] == 0
        assert run("store", "push").stdout.endswith(
            "Entries that were there were not looked at. To sign them, too: "
            "aotbuild store push --again\n"
        )
        assert document("verify", other, code=14)["failures"][0]["problem"] == "it is not signed"
        assert self.copied("push", "--again")["copied"] == 1
        run("store", "verify", other)
        raw = Folder(other).read(key)
        assert raw is not None
        assert [seal.key_id for seal in read_head(raw, key).seals] == [A.key_id]

    def test_pull_takes_only_what_is_trusted(
        self, root: Path, other: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        unsigned, signed = put(other, "unsigned"), put(other, "signed")
        sign(other, signed, A)
        monkeypatch.setenv("AOTBUILD_STORE_TRUST", str(public_file(Path("a.pub.pem"), A)))
        (failure,) = self.copied("pull", code=14)["failures"]
        assert failure == {"key": unsigned, "problem": "it is not signed"}
        assert keys_in(root) == {signed}

    def test_push_needs_the_key_that_is_demanded(
        self, root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("AOTBUILD_STORE_TRUST", str(public_file(Path("a.pub.pem"), A)))
        assert run("store", "push", code=2).stderr == (
            "aotbuild store push: error: AOTBUILD_STORE_TRUST demands signatures by other keys, "
            "and AOTBUILD_STORE_KEY is not set\n"
        )

    def test_no_other_layer(
        self, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("AOTBUILD_STORE", f"{root},{tmp_path / 'other'}?mode=ro")
        assert (
            "no layer behind the first folder may be written" in run("store", "push", code=2).stderr
        )
        monkeypatch.setenv("AOTBUILD_STORE", str(root))
        for name in ("push", "pull"):
            stderr = run("store", name, code=2).stderr
            assert stderr.endswith("error: LAYER: AOTBUILD_STORE names no other layer: name one\n")

    def test_a_full_layer_is_one_error(self, root: Path, tmp_path: Path) -> None:
        put(root, "a")
        (tmp_path / "file").touch()
        result = run("store", "push", "file", code=6)
        assert "Not a directory" in result.stderr


INDEX = index_key("0" * 64)
ROWS = {
    "a": Row("a" * 64, "0" * 64),
    "b": Row("b" * 64, "0" * 64, (("1" * 64, "2" * 64),)),
    "here": Row("c" * 64, "0" * 64, local=True),
}


def put_index(root: Path, *names: str) -> None:
    Folder(root).write(INDEX, Index(tuple(ROWS[name] for name in names)).to_file(INDEX))


def rows_in(root: Path) -> list[Row]:
    return list(Index.in_file(Folder(root).read(INDEX), INDEX).rows)


class TestVerify:
    def test_whole_entries(self, root: Path) -> None:
        put(root, "a")
        assert run("store", "verify").stdout == "1 entry (1.17 kB) checked, 0 failed\n"
        assert document("verify")["failures"] == []

    def test_each_damage_is_named(self, root: Path, tmp_path: Path) -> None:
        cut, flipped, gone, other, whole = (put(root, name) for name in "abcde")
        folder = Folder(root)
        folder.path(cut).write_bytes(folder.path(cut).read_bytes()[:-1])
        raw = bytearray(folder.path(flipped).read_bytes())
        raw[-5] ^= 1
        folder.path(flipped).write_bytes(raw)
        folder.path(gone).write_bytes(b"")
        folder.path(other).write_bytes(folder.path(whole).read_bytes())
        link = put(root, "f")
        folder.path(link).unlink()
        folder.path(link).symlink_to(tmp_path / "nowhere")
        found = document("verify", code=14)
        assert found["checked"] == 6
        size = len(write_entry(cut, Entry({}, bytes(1000))))
        assert {failure["key"]: failure["problem"] for failure in found["failures"]} == {
            cut: f"expected {size} bytes, found {size - 1}",
            flipped: "its SHA-256 is another one",
            gone: "it does not begin as an entry of the store does",
            other: f"it is the entry {whole}",
            link: "it cannot be read",
        }
        shown = run("store", "verify", code=14).stdout
        assert f"FAIL: {other}: it is the entry {whole}\n" in shown
        assert shown.endswith("checked, 5 failed\n")

    def test_signatures_are_demanded_of_other_layers(
        self, root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        key = put(root, "a")
        monkeypatch.setenv("AOTBUILD_STORE_TRUST", str(public_file(Path("a.pub.pem"), A)))
        run("store", "verify")
        sign(Path("other"), key, B)
        (failure,) = document("verify", "other", code=14)["failures"]
        assert failure["problem"] == f"it is signed by {B.key_id}, which is not trusted"
        sign(Path("other"), key, A)
        run("store", "verify", "other")

    def test_a_wrong_signature_counts_everywhere(
        self, root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        key = put(root, "a")
        monkeypatch.setenv("AOTBUILD_STORE_TRUST", str(public_file(Path("a.pub.pem"), A)))
        seal = A.seal(b"another statement")
        Folder(root).write(key, with_seals(write_entry(key, Entry({}, b"")), key, [seal]))
        (failure,) = document("verify", code=14)["failures"]
        assert failure["problem"] == f"its signature by key {A.key_id} does not verify"


def sign(root: Path, key: str, signer: SigningKey) -> None:
    raw = write_entry(key, Entry({}, b""))
    seal = signer.seal(read_head(raw, key).statement)
    Folder(root).write(key, with_seals(raw, key, [seal]))


class TestRemote:
    """The commands with a layer behind a URL; the file system is fsspec's own, in memory."""

    URL = "memory://bucket/prefix"

    @pytest.fixture(autouse=True)
    def layers(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        monkeypatch.setenv("AOTBUILD_STORE", f"{root},{self.URL}")
        files = fsspec.filesystem("memory")
        yield
        files.rm("/bucket", recursive=True) if files.exists("/bucket") else None

    def test_there_and_back(self, root: Path) -> None:
        keys = sorted(put(root, name) for name in "abc")
        assert document("push")["layers"][0]["copied"] == 3
        assert [entry["key"] for entry in document("list", self.URL)["entries"]] != []
        assert sorted(e["key"] for e in document("list", self.URL)["entries"]) == keys
        front, behind = document("info")["layers"]
        assert (behind["layer"], behind["entries"], behind["size"]) == (self.URL, 3, front["size"])
        assert behind["last_used"] is not None
        assert document("verify", self.URL)["checked"] == 3
        run("store", "prune", "--max-size", "0")
        assert document("pull")["layers"][0]["copied"] == 3
        assert sorted(keys_in(root)) == keys

    def test_damage_is_found(self, root: Path) -> None:
        key = put(root, "a")
        run("store", "push")
        path = f"/bucket/prefix/v2/{key[:2]}/{key}"
        files = fsspec.filesystem("memory")
        files.pipe_file(path, files.cat_file(path)[:-1])
        (failure,) = document("verify", self.URL, code=14)["failures"]
        assert failure["problem"].startswith("expected ")
        run("store", "prune", "--max-size", "0")
        assert document("pull", code=14)["layers"][0]["copied"] == 0
        assert keys_in(root) == set()

    def test_other_files_in_a_bucket_are_not_entries(self) -> None:
        fsspec.filesystem("memory").pipe_file("/bucket/prefix/v2/ab/readme", b"")
        assert document("list", self.URL)["entries"] == []

    def test_only_folders_are_pruned(self) -> None:
        assert run("store", "prune", self.URL, code=2).stderr == (
            f"aotbuild store prune: error: LAYER: expected a folder, found {self.URL}: give a "
            "bucket a rule that deletes objects by age\n"
        )

    def test_a_layer_that_fails_is_one_error(
        self, root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        put(root, "a")

        def fail(*_: object, **__: object) -> None:
            msg = "no network"
            raise OSError(msg)

        monkeypatch.setattr(MemoryFileSystem, "find", fail)
        expected = f"{self.URL}: OSError: no network\n"
        assert run("store", "push", code=6).stderr == expected
        assert run("store", "list", self.URL, code=6).stderr == expected
        assert document("info")["layers"][1]["problem"] == "OSError: no network"
