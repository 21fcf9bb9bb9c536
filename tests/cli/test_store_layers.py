"""`aotbuild store` with other layers: copying entries, and checking them and their signatures."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest
from aotbuild.store.index import Index, Row
from fsspec.implementations.memory import MemoryFileSystem
from support.cli import run
from support.signing import keys, public_file
from support.stores import document, keys_in, put

from aotbuild.format.keys import SigningKey
from aotbuild.store.entry import Entry, read_head, with_seals, write_entry
from aotbuild.store.folder import Folder
from aotbuild.store.keys import index_key, key_of

A, B = keys(2)
pytestmark = pytest.mark.usefixtures("store_root")


class TestCopy:
    """`push` and `pull` between the first folder and another layer."""

    @pytest.fixture(autouse=True)
    def other(self, store_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        monkeypatch.setenv("AOTBUILD_STORE", f"{store_root},{tmp_path / 'other'}")
        return tmp_path / "other"

    def copied(self, command: str, *args: object, code: int = 0) -> Any:
        (layer,) = document(command, *args, code=code)["layers"]
        return layer

    def test_push(self, store_root: Path, other: Path) -> None:
        keys = {put(store_root, "a"), put(store_root, "b")}
        found = self.copied("push")
        assert (found["layer"], found["copied"], found["present"]) == (str(other), 2, 0)
        assert keys_in(other) == keys
        put(store_root, "c")
        shown = run("store", "push").stdout
        assert shown == f"{other}: copied 1 entry (1.17 kB); 2 were there\n"

    def test_pull(self, store_root: Path, other: Path) -> None:
        key = put(other, "a")
        assert self.copied("pull")["copied"] == 1
        assert keys_in(store_root) == {key}
        assert self.copied("pull")["present"] == 1

    def test_a_layer_that_is_not_there_is_not_pulled(self, other: Path) -> None:
        assert run("store", "pull", code=6).stderr == f"{other}: No such file or directory\n"

    def test_a_layer_that_is_named(self, store_root: Path, other: Path, tmp_path: Path) -> None:
        key = put(store_root, "a")
        (tmp_path / "third").mkdir()
        run("store", "push", "third")
        assert (keys_in(tmp_path / "third"), keys_in(other)) == ({key}, set())

    def test_only_recent_ones(self, store_root: Path, other: Path) -> None:
        put(store_root, "old", days=2)
        new = put(store_root, "new")
        assert self.copied("push", "--newer-than", "1d")["copied"] == 1
        assert keys_in(other) == {new}

    def test_entries_of_this_machine_stay(self, store_root: Path, other: Path) -> None:
        """Direct mode keeps entries with paths that mean nothing elsewhere."""
        key = key_of({"name": "here"})
        Folder(store_root).write(key, write_entry(key, Entry({"local": True}, b"")))
        assert self.copied("push")["copied"] == 0
        assert not other.exists()

    def test_entries_of_other_machines_stay_there(self, store_root: Path, other: Path) -> None:
        key = key_of({"name": "there"})
        Folder(other).write(key, write_entry(key, Entry({"local": True}, b"")))
        assert self.copied("pull")["copied"] == 0
        assert keys_in(store_root) == set()

    def test_indexes_get_what_they_lack(self, store_root: Path, other: Path) -> None:
        """The index of direct mode is the one entry that layers have in different forms."""
        put_index(store_root, "a", "here")
        put_index(other, "b")
        assert self.copied("push")["copied"] == 1
        assert rows_in(other) == [ROWS["b"], ROWS["a"]]
        found = self.copied("push")
        assert (found["copied"], found["present"]) == (0, 1)
        assert self.copied("pull")["copied"] == 1
        assert rows_in(store_root) == [ROWS["a"], ROWS["here"], ROWS["b"]]
        assert (self.copied("pull")["copied"], self.copied("pull")["present"]) == (0, 1)
        for command in ("verify", "list"):
            run("store", command, other)

    def test_only_trusted_rows_are_signed(
        self, store_root: Path, other: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        put_index(store_root, "a")
        put_index(other, "b")
        Path("a.pem").write_bytes(A.private_pem(None))
        monkeypatch.setenv("AOTBUILD_STORE_KEY", "a.pem")
        assert self.copied("push")["copied"] == 1
        assert rows_in(other) == [ROWS["a"]]
        run("store", "verify", other)
        assert self.copied("push")["copied"] == 0
        assert self.copied("push", "--again")["copied"] == 1

    def test_damaged_entries_are_not_copied(self, store_root: Path, other: Path) -> None:
        bad, good = put(store_root, "bad"), put(store_root, "good")
        Folder(store_root).path(bad).write_bytes(b"x")
        (failure,) = self.copied("push", code=5)["failures"]
        assert failure["key"] == bad
        assert keys_in(other) == {good}
        bad = put(other, "worse")
        Folder(other).path(bad).write_bytes(b"x")
        shown = run("store", "pull", code=5).stdout
        assert f"FAIL: {bad}: it does not begin as an entry of the store does\n" in shown
        assert bad not in keys_in(store_root)

    def test_what_is_pushed_is_signed(
        self, store_root: Path, other: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        key = put(store_root, "a")
        run("store", "push")
        Path("a.pem").write_bytes(A.private_pem(None))
        monkeypatch.setenv("AOTBUILD_STORE_KEY", "a.pem")
        assert self.copied("push")["copied"] == 0
        assert run("store", "push").stdout.endswith(
            "Entries that were there were not looked at. To sign them, too: "
            "aotbuild store push --again\n"
        )
        assert document("verify", other, code=5)["failures"][0]["problem"] == "it is not signed"
        assert self.copied("push", "--again")["copied"] == 1
        run("store", "verify", other)
        raw = Folder(other).read(key)
        assert raw is not None
        assert [seal.key_id for seal in read_head(raw, key).seals] == [A.key_id]

    def test_pull_takes_only_what_is_trusted(
        self, store_root: Path, other: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        unsigned, signed = put(other, "unsigned"), put(other, "signed")
        sign(other, signed, A)
        monkeypatch.setenv("AOTBUILD_STORE_TRUST", str(public_file(Path("a.pub.pem"), A)))
        (failure,) = self.copied("pull", code=5)["failures"]
        assert failure == {"key": unsigned, "problem": "it is not signed"}
        assert keys_in(store_root) == {signed}

    def test_push_needs_the_key_that_is_demanded(
        self, store_root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("AOTBUILD_STORE_TRUST", str(public_file(Path("a.pub.pem"), A)))
        assert run("store", "push", code=2).stderr == (
            "aotbuild store push: error: AOTBUILD_STORE_TRUST demands signatures by other keys, "
            "and AOTBUILD_STORE_KEY is not set\n"
        )

    def test_no_other_layer(
        self, store_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("AOTBUILD_STORE", f"{store_root},{tmp_path / 'other'}?mode=ro")
        assert (
            "no layer behind the first folder may be written" in run("store", "push", code=2).stderr
        )
        monkeypatch.setenv("AOTBUILD_STORE", str(store_root))
        for name in ("push", "pull"):
            stderr = run("store", name, code=2).stderr
            assert stderr.endswith("error: LAYER: AOTBUILD_STORE names no other layer: name one\n")

    def test_a_full_layer_is_one_error(self, store_root: Path, tmp_path: Path) -> None:
        put(store_root, "a")
        (tmp_path / "file").touch()
        result = run("store", "push", "file", code=6)
        assert "Not a directory" in result.stderr


INDEX = index_key("0" * 64)
ROWS = {
    "a": Row("a" * 64, "0" * 64),
    "b": Row("b" * 64, "0" * 64, (("1" * 64, "2" * 64),)),
    "here": Row("c" * 64, "0" * 64, local=True),
}


def put_index(store_root: Path, *names: str) -> None:
    Folder(store_root).write(INDEX, Index(tuple(ROWS[name] for name in names)).to_file(INDEX))


def rows_in(store_root: Path) -> list[Row]:
    return list(Index.in_file(Folder(store_root).read(INDEX), INDEX).rows)


class TestVerify:
    def test_whole_entries(self, store_root: Path) -> None:
        put(store_root, "a")
        assert run("store", "verify").stdout == "1 entry (1.17 kB) checked, 0 failed\n"
        assert document("verify")["failures"] == []

    def test_each_damage_is_named(self, store_root: Path, tmp_path: Path) -> None:
        cut, flipped, gone, other, whole = (put(store_root, name) for name in "abcde")
        folder = Folder(store_root)
        folder.path(cut).write_bytes(folder.path(cut).read_bytes()[:-1])
        raw = bytearray(folder.path(flipped).read_bytes())
        raw[-5] ^= 1
        folder.path(flipped).write_bytes(raw)
        folder.path(gone).write_bytes(b"")
        folder.path(other).write_bytes(folder.path(whole).read_bytes())
        link = put(store_root, "f")
        folder.path(link).unlink()
        folder.path(link).symlink_to(tmp_path / "nowhere")
        found = document("verify", code=5)
        assert found["checked"] == 6
        size = len(write_entry(cut, Entry({}, bytes(1000))))
        assert {failure["key"]: failure["problem"] for failure in found["failures"]} == {
            cut: f"expected {size} bytes, found {size - 1}",
            flipped: "its SHA-256 is another one",
            gone: "it does not begin as an entry of the store does",
            other: f"it is the entry {whole}",
            link: "it cannot be read",
        }
        shown = run("store", "verify", code=5).stdout
        assert f"FAIL: {other}: it is the entry {whole}\n" in shown
        assert shown.endswith("checked, 5 failed\n")

    def test_signatures_are_demanded_of_other_layers(
        self, store_root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        key = put(store_root, "a")
        monkeypatch.setenv("AOTBUILD_STORE_TRUST", str(public_file(Path("a.pub.pem"), A)))
        run("store", "verify")
        sign(Path("other"), key, B)
        (failure,) = document("verify", "other", code=5)["failures"]
        assert failure["problem"] == f"it is signed by {B.key_id}, which is not trusted"
        sign(Path("other"), key, A)
        run("store", "verify", "other")

    def test_a_wrong_signature_counts_everywhere(
        self, store_root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        key = put(store_root, "a")
        monkeypatch.setenv("AOTBUILD_STORE_TRUST", str(public_file(Path("a.pub.pem"), A)))
        seal = A.seal(b"another statement")
        Folder(store_root).write(key, with_seals(write_entry(key, Entry({}, b"")), key, [seal]))
        (failure,) = document("verify", code=5)["failures"]
        assert failure["problem"] == f"its signature by key {A.key_id} does not verify"


def sign(store_root: Path, key: str, signer: SigningKey) -> None:
    raw = write_entry(key, Entry({}, b""))
    seal = signer.seal(read_head(raw, key).statement)
    Folder(store_root).write(key, with_seals(raw, key, [seal]))


class TestRemote:
    """The commands with a layer behind a URL; the file system is fsspec's own, in memory."""

    URL = "memory://bucket/prefix"

    @pytest.fixture(autouse=True)
    def layers(self, store_root: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        monkeypatch.setenv("AOTBUILD_STORE", f"{store_root},{self.URL}")
        files = fsspec.filesystem("memory")
        yield
        files.rm("/bucket", recursive=True) if files.exists("/bucket") else None

    def test_there_and_back(self, store_root: Path) -> None:
        keys = sorted(put(store_root, name) for name in "abc")
        assert document("push")["layers"][0]["copied"] == 3
        assert [entry["key"] for entry in document("list", self.URL)["entries"]] != []
        assert sorted(e["key"] for e in document("list", self.URL)["entries"]) == keys
        front, behind = document("info")["layers"]
        assert (behind["layer"], behind["entries"], behind["size"]) == (self.URL, 3, front["size"])
        assert behind["last_used"] is not None
        assert document("verify", self.URL)["checked"] == 3
        run("store", "prune", "--max-size", "0")
        assert document("pull")["layers"][0]["copied"] == 3
        assert sorted(keys_in(store_root)) == keys

    def test_damage_is_found(self, store_root: Path) -> None:
        key = put(store_root, "a")
        run("store", "push")
        path = f"/bucket/prefix/v2/{key[:2]}/{key}"
        files = fsspec.filesystem("memory")
        files.pipe_file(path, files.cat_file(path)[:-1])
        (failure,) = document("verify", self.URL, code=5)["failures"]
        assert failure["problem"].startswith("expected ")
        run("store", "prune", "--max-size", "0")
        assert document("pull", code=5)["layers"][0]["copied"] == 0
        assert keys_in(store_root) == set()

    def test_other_files_in_a_bucket_are_not_entries(self) -> None:
        fsspec.filesystem("memory").pipe_file("/bucket/prefix/v2/ab/readme", b"")
        assert document("list", self.URL)["entries"] == []

    def test_only_folders_are_pruned(self) -> None:
        assert run("store", "prune", self.URL, code=2).stderr == (
            f"aotbuild store prune: error: LAYER: expected a folder, found {self.URL}: give a "
            "bucket a rule that deletes objects by age\n"
        )

    def test_a_layer_that_fails_is_one_error(
        self, store_root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        put(store_root, "a")

        def fail(*_: object, **__: object) -> None:
            msg = "no network"
            raise OSError(msg)

        monkeypatch.setattr(MemoryFileSystem, "find", fail)
        expected = f"{self.URL}: OSError: no network\n"
        assert run("store", "push", code=6).stderr == expected
        assert run("store", "list", self.URL, code=6).stderr == expected
        assert document("info")["layers"][1]["problem"] == "OSError: no network"
