"""Signed entries: what comes from elsewhere must be signed, and what is pushed is."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.signing import keys, public_file

from aotbuild.errors import PlanError
from aotbuild.format.keys import SigningKey
from aotbuild.store.entry import Entry, read_head, with_seals, write_entry
from aotbuild.store.folder import Folder
from aotbuild.store.keys import key_of
from aotbuild.store.layers import Layers, open_store

A, B = keys(2)
KEY, OTHER = key_of({"a": 1}), key_of({"a": 2})
ENTRY = Entry({"flops": 2.0}, b"code")
PASSPHRASE = "open sesame"


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A current folder with keys: a.pub.pem, b.pub.pem, and the private a.pem and b.pem."""
    monkeypatch.chdir(tmp_path)
    for name, key in (("a", A), ("b", B)):
        public_file(Path(f"{name}.pub.pem"), key)
        Path(f"{name}.pem").write_bytes(key.private_pem(None))


def layers(*, trust: str | None = None, key: str | None = None, **more: str) -> Layers:
    """Return a store of the folder `front` and the folder `behind`."""
    given = {"AOTBUILD_STORE_TRUST": trust, "AOTBUILD_STORE_KEY": key, **more}
    found = {name: value for name, value in given.items() if value is not None}
    return open_store({"AOTBUILD_STORE": here("front", "behind"), **found})


def here(*folders: str) -> str:
    return ",".join(str(Path(folder).absolute()) for folder in folders)


def put_behind(*signers: SigningKey, key: str = KEY, entry: Entry = ENTRY) -> bytes:
    raw = write_entry(key, entry)
    statement = read_head(raw, key).statement
    signed = with_seals(raw, key, [signer.seal(statement) for signer in signers])
    Folder(Path("behind")).write(key, signed)
    return signed


def signers(folder: str, key: str = KEY) -> list[str]:
    raw = Folder(Path(folder)).read(key)
    assert raw is not None
    return [seal.key_id for seal in read_head(raw, key).seals]


def refusal(caplog: pytest.LogCaptureFixture, **given: str) -> str:
    """Return why the entry behind is not taken, without its place and key."""
    with layers(**given) as store:
        assert store.store.get(KEY) is None
    assert not Path("front").exists()
    (message,) = caplog.messages
    start = f"{Path('behind').absolute()}: the entry {KEY} is not used: "
    assert message.startswith(start)
    return message.removeprefix(start)


class TestTrust:
    @pytest.mark.parametrize("trust", ["a.pub.pem", "b.pub.pem:a.pub.pem", "a.pub.pem:"])
    def test_one_key_is_enough(self, trust: str) -> None:
        put_behind(A)
        with layers(trust=trust.replace(":", os.pathsep)) as store:
            assert store.store.get(KEY) == ENTRY
        assert signers("front") == [A.key_id]

    def test_an_unsigned_entry_is_not_taken(self, caplog: pytest.LogCaptureFixture) -> None:
        put_behind()
        assert refusal(caplog, trust="a.pub.pem") == "it is not signed"

    def test_an_entry_of_another_key_is_not_taken(self, caplog: pytest.LogCaptureFixture) -> None:
        put_behind(B)
        expected = f"it is signed by {B.key_id}, which is not trusted"
        assert refusal(caplog, trust="a.pub.pem") == expected

    def test_a_signature_is_for_one_key_only(self, caplog: pytest.LogCaptureFixture) -> None:
        """Whoever may write to the layer gives an honest entry another one's key."""
        raw = put_behind(A, key=OTHER)
        Folder(Path("behind")).write(KEY, raw.replace(OTHER.encode(), KEY.encode()))
        expected = f"its signature by key {A.key_id} does not verify"
        assert refusal(caplog, trust="a.pub.pem") == expected

    def test_a_signature_is_for_one_digest_only(self, caplog: pytest.LogCaptureFixture) -> None:
        honest = read_head(put_behind(A), KEY)
        evil = with_seals(write_entry(KEY, Entry({}, b"evil")), KEY, honest.seals)
        Folder(Path("behind")).write(KEY, evil)
        expected = f"its signature by key {A.key_id} does not verify"
        assert refusal(caplog, trust="a.pub.pem") == expected

    def test_without_it_every_entry_is_taken(self) -> None:
        put_behind()
        with layers() as store:
            assert store.store.get(KEY) == ENTRY

    def test_the_front_needs_no_signature(self) -> None:
        Folder(Path("front")).write(KEY, write_entry(KEY, ENTRY))
        with layers(trust="a.pub.pem") as store:
            assert store.store.get(KEY) == ENTRY

    def test_many_refused_entries_are_one_warning(self, caplog: pytest.LogCaptureFixture) -> None:
        put_behind()
        put_behind(key=OTHER)
        with layers(trust="a.pub.pem") as store:
            assert [store.store.get(KEY), store.store.get(OTHER)] == [None, None]
        assert len(caplog.messages) == 1


class TestSigning:
    def test_what_is_pushed_is_signed(self) -> None:
        with layers(key="a.pem") as store:
            store.store.put(KEY, ENTRY)
            store.push([KEY])
        assert (signers("front"), signers("behind")) == ([], [A.key_id])
        with open_store(
            {"AOTBUILD_STORE": here("empty", "behind"), "AOTBUILD_STORE_TRUST": "a.pub.pem"}
        ) as other:
            assert other.store.get(KEY) == ENTRY

    def test_a_key_with_a_passphrase(self) -> None:
        Path("a.pem").write_bytes(A.private_pem(PASSPHRASE))
        with layers(key="a.pem", AOTBUILD_SIGNING_PASSPHRASE=PASSPHRASE) as store:
            store.store.put(KEY, ENTRY)
            store.push([KEY])
        assert signers("behind") == [A.key_id]

    def test_equal_entries_and_keys_give_equal_files(self) -> None:
        expected = put_behind(A)
        Folder(Path("behind")).path(KEY).unlink()
        with layers(key="a.pem") as store:
            store.store.put(KEY, ENTRY)
            store.push([KEY])
        assert Folder(Path("behind")).read(KEY) == expected

    def test_other_signatures_stay(self) -> None:
        (front := Folder(Path("front"))).write(KEY, put_behind(B))
        Folder(Path("behind")).path(KEY).unlink()
        with layers(trust=f"a.pub.pem{os.pathsep}b.pub.pem", key="a.pem") as store:
            store.push([KEY])
        assert signers("behind") == [A.key_id, B.key_id]
        assert front.read(KEY) != Folder(Path("behind")).read(KEY)

    def test_what_was_refused_is_replaced(self) -> None:
        put_behind()
        with layers(trust="a.pub.pem", key="a.pem") as store:
            assert store.store.get(KEY) is None
            store.store.put(KEY, ENTRY)
            store.push([KEY])
        assert signers("behind") == [A.key_id]

    def test_a_key_does_not_vouch_for_strangers(self, caplog: pytest.LogCaptureFixture) -> None:
        put_behind()
        assert refusal(caplog, key="a.pem") == "it is not signed"

    @pytest.mark.parametrize(
        ("key", "found"), [(None, "is not set"), ("b.pem", f"has key {B.key_id}")]
    )
    def test_nothing_is_pushed_that_would_be_refused(
        self, key: str | None, found: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        """It could replace an entry with a signature by one without."""
        with layers(trust="a.pub.pem", key=key) as store:
            store.store.put(KEY, ENTRY)
            store.push([KEY])
        assert not Path("behind").exists()
        demanded = "AOTBUILD_STORE_TRUST demands signatures by other keys"
        expected = f"{demanded}, and AOTBUILD_STORE_KEY {found}"
        assert caplog.messages == [f"nothing is pushed to {Path('behind').absolute()}: {expected}"]

    def test_a_damaged_entry_is_not_pushed(self) -> None:
        Folder(Path("front")).write(KEY, write_entry(KEY, ENTRY)[:-1])
        with layers(key="a.pem") as store:
            store.push([KEY])
        assert not Path("behind").exists()


def refused(**given: str) -> str:
    with pytest.raises(PlanError) as caught:
        layers(**given)
    return str(caught.value).replace(f"{Path.cwd()}{os.sep}", "")


class TestSettings:
    @pytest.mark.parametrize(
        ("trust", "problem"),
        [
            ("", "found no path"),
            (os.pathsep, "found no path"),
            ("gone.pem", "gone.pem: No such file or directory"),
            ("folder", "folder: Is a directory"),
            ("a.pem", "a.pem: not the PEM of one public key"),
        ],
    )
    def test_trust_that_cannot_be_used(self, trust: str, problem: str) -> None:
        Path("folder").mkdir()
        first, _, found = refused(trust=trust).partition("\n")
        assert first == (
            "AOTBUILD_STORE_TRUST: expected paths of Ed25519 public keys in PEM, with "
            f"{os.pathsep!r} between them, as `aotbuild keygen` writes them (.pub.pem)"
        )
        assert found == f"  {problem}"

    def test_all_bad_paths_are_named(self) -> None:
        message = refused(trust=os.pathsep.join(["gone.pem", "a.pub.pem", "a.pem"]))
        assert [line.partition(":")[0].strip() for line in message.splitlines()[1:]] == [
            "gone.pem",
            "a.pem",
        ]

    def test_a_key_that_cannot_be_used(self) -> None:
        expected = "expected an Ed25519 private key in PEM"
        gone = f"AOTBUILD_STORE_KEY: gone.pem: No such file or directory; {expected}"
        assert refused(key="gone.pem") == gone
        assert refused(key="a.pub.pem").startswith(f"AOTBUILD_STORE_KEY: a.pub.pem: {expected}: ")

    def test_one_layer_needs_no_keys(self) -> None:
        given = {"AOTBUILD_STORE": here("front"), "AOTBUILD_STORE_TRUST": "gone.pem"}
        with open_store(given) as store:
            assert store.front == Path("front").absolute()

    @pytest.mark.process
    @pytest.mark.parametrize(
        ("variable", "file"),
        [("AOTBUILD_STORE_TRUST", "a.pub.pem"), ("AOTBUILD_STORE_KEY", "a.pem")],
    )
    def test_without_cryptography(self, variable: str, file: str) -> None:
        code = (
            "import sys; sys.modules['cryptography'] = None\n"
            "from aotbuild.store.layers import open_store\n"
            f"open_store({{'AOTBUILD_STORE': '/a,/b', {variable!r}: {file!r}}})"
        )
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=False
        )
        expected = f'{variable} needs cryptography: pip install "aotbuild[sign]"'
        assert f"aotbuild.errors.PlanError: {expected}" in done.stderr
