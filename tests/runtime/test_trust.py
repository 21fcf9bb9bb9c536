"""Demanded signatures: what `load` and `precompiled` refuse, and that nothing weakens a demand."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from support.packages import Built, build, write
from support.processes import fresh
from support.signing import keys, public_file, put_seals, seal_of, sign_folder

import aotbuild
from aotbuild.errors import NoArtifacts, UntrustedPackage
from aotbuild.format.keys import SigningKey
from aotbuild.format.signing import Seal
from aotbuild.runtime.jax.backend import probe
from aotbuild.verify.diagnosis import diagnose

X = np.ones(4, "float32")
KEYS = keys(3)
KEY, OTHER, THIRD = KEYS
Edit = Callable[[Path], object]


@pytest.fixture(scope="module")
def built() -> Built:
    return build("f", lambda x: x * 2, {"x": X})


@pytest.fixture
def folder(built: Built, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A signed package that can be asked for by its name, `demo`."""
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "demo").mkdir()
    return sign_folder(write(tmp_path / "demo", [built]), KEY)


@pytest.fixture
def public(tmp_path: Path) -> Path:
    return public_file(tmp_path / "key.pub.pem", KEY)


@pytest.fixture
def other(tmp_path: Path) -> Path:
    return public_file(tmp_path / "other.pub.pem", OTHER)


def refused(package: Any, trust: Any, found: str = "") -> UntrustedPackage:
    with pytest.raises(UntrustedPackage) as caught:
        aotbuild.load(package, trust=trust)
    assert found in caught.value.found
    return caught.value


@jax.jit
def triple(x: Any) -> Any:
    return x * 3


def test_a_signed_package(folder: Path, public: Path) -> None:
    for trust in ([public], [str(public)], [KEY.public_pem], (THIRD.public_pem, public)):
        for package in ("demo", folder, folder.parent):
            library = aotbuild.load(package, trust=trust)
            np.testing.assert_array_equal(library.f(X), X * 2)


def test_doctor_obeys_the_variable(
    folder: Path, other: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert diagnose("demo", probe()).unusable == ()
    monkeypatch.setenv("AOTBUILD_TRUST", str(other))
    with pytest.raises(UntrustedPackage):
        diagnose("demo", probe())


def test_a_pipe_is_no_file(folder: Path, public: Path) -> None:
    """Whoever opens one waits until somebody writes to it."""
    (folder / "index.sig").unlink()
    os.mkfifo(folder / "index.sig")
    with pytest.raises(UntrustedPackage, match="not a regular file"):
        aotbuild.load("demo", trust=[public])


def test_without_a_demand_a_signature_is_not_looked_at(folder: Path) -> None:
    (folder / "index.sig").write_bytes(b"nonsense")
    assert aotbuild.load("demo").functions == ("f",)


def test_the_message(folder: Path, other: Path) -> None:
    error = refused(folder, [other])
    assert str(error) == (
        f"{folder}/index.sig: the package is not trusted\n"
        f"  expected a signature by {OTHER.key_id}, as trust= demands\n"
        f"  found    signatures by {KEY.key_id}\n"
        "Get the package from its builder, or trust this key if you know whose it is."
    )


def edit_index(folder: Path, item: Built) -> None:
    """Do as an attacker does: change a record, and mend every digest."""
    signature = (folder / "index.sig").read_bytes()
    before = (folder / "index").read_bytes()
    write(folder.parent, [item.replace(x64=True)])
    assert (folder / "index").read_bytes() != before
    (folder / "index.sig").write_bytes(signature)


def test_an_edited_index_with_fresh_digests(folder: Path, public: Path, built: Built) -> None:
    edit_index(folder, built)
    assert aotbuild.load(folder).functions == ("f",)
    error = refused("demo", [public], "the signature does not verify")
    assert error.remedy.startswith("Do not use the package: it was changed")


def test_a_signature_from_another_package(
    folder: Path, public: Path, built: Built, tmp_path: Path
) -> None:
    other = write(tmp_path / "elsewhere", [built], package="elsewhere")
    put_seals(folder, seal_of(other, KEY))
    refused(folder, [public], "the signature does not verify")


def test_another_package_of_the_same_key_in_its_place(
    folder: Path, public: Path, built: Built
) -> None:
    sign_folder(write(folder.parent, [built], package="elsewhere"), KEY)
    error = refused("demo", [public], "the one of 'elsewhere'")
    assert error.expected == "the index of package 'demo'"
    assert aotbuild.load(folder, trust=[public]).functions == ("f",)


@pytest.mark.parametrize(
    ("edit", "found"),
    [
        (lambda path: path.unlink(), "no such file: the package is not signed"),
        (lambda path: path.write_bytes(b""), "''"),
        (lambda path: path.write_bytes(path.read_bytes()[:-20]), "none"),
        (lambda path: path.write_bytes(os.urandom(100)), ""),
        (lambda path: path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n")), "1\\r'"),
        (lambda path: path.write_bytes(path.read_bytes() + b"\n"), "''"),
        (lambda path: path.write_bytes(path.read_bytes() * 1000), "more"),
        (lambda path: (path.unlink(), path.mkdir()), "Is a directory"),
    ],
)
def test_signature_files_that_are_none(folder: Path, public: Path, edit: Edit, found: str) -> None:
    edit(folder / "index.sig")
    refused(folder, [public], found)


def test_a_flipped_bit_in_the_signature(folder: Path, public: Path) -> None:
    seal = seal_of(folder, KEY)
    flipped = bytes([seal.value[0] ^ 1]) + seal.value[1:]
    put_seals(folder, Seal(seal.key_id, flipped))
    refused(folder, [public], "the signature does not verify")


def test_a_signature_under_the_name_of_another_key(folder: Path, public: Path) -> None:
    put_seals(folder, Seal(KEY.key_id, seal_of(folder, OTHER).value))
    refused(folder, [public], "the signature does not verify")


def test_several_signatures(folder: Path, public: Path, other: Path) -> None:
    sign_folder(folder, KEY, OTHER)
    for trust in ([public], [other], [public, other], [THIRD.public_pem, other]):
        assert aotbuild.load(folder, trust=trust).functions == ("f",)
    refused(folder, [THIRD.public_pem], f"{KEY.key_id}, {OTHER.key_id}")


def test_one_wrong_signature_of_a_trusted_key_is_enough(
    folder: Path, public: Path, other: Path
) -> None:
    put_seals(folder, seal_of(folder, KEY), Seal(OTHER.key_id, bytes(64)))
    assert aotbuild.load(folder, trust=[public]).functions == ("f",)
    refused(folder, [public, other], "the signature does not verify")


@pytest.mark.parametrize(
    ("trust", "found"),
    [
        ([], "none"),
        ("key.pub.pem", "one key, not a list"),
        (KEY.public_pem, "one key, not a list"),
        ([""], "'': an empty path"),
        (["absent.pem"], "'absent.pem': No such file or directory"),
        (["."], "'.': Is a directory"),
        ([b""], "PEM bytes: not the PEM of one public key"),
        ([b"-----BEGIN PUBLIC KEY-----\nxx\n-----END PUBLIC KEY-----\n"], "PEM bytes: "),
        ([KEY.public_pem[:-40]], "PEM bytes: "),
        ([KEY.public_pem * 2], "PEM bytes: not the PEM of one public key"),
        ([KEY.private_pem(None)], "PEM bytes: not the PEM of one public key"),
        ([KEY.public_pem, b"x"], "PEM bytes: not the PEM of one public key"),
        ([7], "'7': "),
        (["\0"], "embedded null"),
    ],
)
def test_demands_that_cannot_be_checked(folder: Path, trust: Any, found: str) -> None:
    error = refused(folder, trust, found)
    assert error.expected == "trust= to name Ed25519 public keys"


def test_a_key_of_another_kind(folder: Path) -> None:
    public = ec.generate_private_key(ec.SECP256R1()).public_key()
    pem = public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    refused(folder, [pem], "not an Ed25519 key")


class TestTheVariable:
    def demand(self, monkeypatch: pytest.MonkeyPatch, *paths: Path | str) -> None:
        monkeypatch.setenv("AOTBUILD_TRUST", os.pathsep.join(map(str, paths)))

    def test_one_of_its_keys_is_enough(
        self, folder: Path, public: Path, other: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.demand(monkeypatch, other, public)
        assert aotbuild.load("demo").functions == ("f",)
        self.demand(monkeypatch, other)
        error = refused("demo", None, KEY.key_id)
        assert error.expected == f"a signature by {OTHER.key_id}, as AOTBUILD_TRUST demands"

    def test_the_code_cannot_weaken_it(
        self, folder: Path, public: Path, other: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.demand(monkeypatch, other)
        refused(folder, [public], KEY.key_id)
        refused(folder, [public, other], KEY.key_id)

    def test_nor_does_it_weaken_the_code(
        self, folder: Path, public: Path, other: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.demand(monkeypatch, public)
        refused(folder, [other], KEY.key_id)
        sign_folder(folder, KEY, OTHER)
        assert aotbuild.load(folder, trust=[other]).functions == ("f",)

    @pytest.mark.parametrize("paths", [(), ("",), ("", ""), ("absent.pem",)])
    def test_one_that_names_no_key_refuses_everything(
        self, folder: Path, public: Path, paths: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.demand(monkeypatch, *paths)
        for trust in (None, [public]):
            assert refused(folder, trust).expected.startswith("AOTBUILD_TRUST to name")

    def test_an_empty_part_is_an_error(
        self, folder: Path, public: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.demand(monkeypatch, public, "")
        refused(folder, None, "an empty path")


class TestPrecompiled:
    def test_a_signed_package(self, folder: Path, public: Path) -> None:
        fn = aotbuild.precompiled("demo:f", trust=[public])(triple)
        np.testing.assert_array_equal(fn(X), X * 2)

    @pytest.mark.parametrize("policy", ["none", "portable", "jit"])
    def test_no_fallback_goes_around_it(
        self, folder: Path, other: Path, policy: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        calls = [
            aotbuild.precompiled("demo:f", fallback=policy, trust=[other])(triple),
            aotbuild.precompiled("demo:f", fallback=policy, trust=[])(triple),
        ]
        monkeypatch.setenv("AOTBUILD_FALLBACK", policy)
        calls.append(aotbuild.precompiled("demo:f", trust=[other])(triple))
        for call in calls:
            for _ in range(2):
                with pytest.raises(UntrustedPackage):
                    call(X)

    def test_the_variable(self, folder: Path, other: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("AOTBUILD_TRUST", str(other))
        with pytest.raises(UntrustedPackage):
            aotbuild.precompiled("demo:f", fallback="jit")(triple)(X)

    def test_a_failure_is_not_kept(self, folder: Path, other: Path) -> None:
        fn = aotbuild.precompiled("demo:f", trust=[other])(triple)
        with pytest.raises(UntrustedPackage):
            fn(X)
        sign_folder(folder, OTHER)
        np.testing.assert_array_equal(fn(X), X * 2)

    def test_without_a_package_there_is_nothing_to_sign(self, tmp_path: Path) -> None:
        fn = aotbuild.precompiled("absent:f", fallback="jit", trust=[KEY.public_pem])(triple)
        np.testing.assert_array_equal(fn(X), X * 3)
        with pytest.raises(NoArtifacts):
            aotbuild.load(tmp_path, trust=[KEY.public_pem])


def test_every_way_to_a_library_asks(folder: Path, built: Built, public: Path) -> None:
    """What is opened again after `close` is the same index, checked once."""
    library = aotbuild.load(folder, trust=[public])
    edit_index(folder, built)
    library.close()
    assert library.f.records[0].requires.x64 is False


SCRIPT = """
import json, sys
if sys.argv[3] == "without": sys.modules["cryptography"] = None
import aotbuild
trust = {"none": None, "key": [sys.argv[2]]}[sys.argv[4]]
try:
    result = aotbuild.load(sys.argv[1], trust=trust).functions
except aotbuild.errors.UntrustedPackage as err:
    result = [err.expected, err.found, err.remedy]
json.dump([result, "cryptography" in sys.modules], sys.stdout)
"""


@pytest.mark.process
def test_cryptography_is_imported_only_for_a_key(folder: Path, public: Path) -> None:
    paths = str(folder), str(public)
    assert fresh(SCRIPT, *paths, "with", "none") == [["f"], False]
    assert fresh(SCRIPT, *paths, "with", "key") == [["f"], True]
    assert fresh(SCRIPT, *paths, "without", "none") == [["f"], True]


@pytest.mark.process
def test_without_cryptography_a_demand_is_refused(folder: Path, public: Path) -> None:
    (expected, found, remedy), _ = fresh(SCRIPT, str(folder), str(public), "without", "key")
    assert expected == "the package cryptography, to check what trust= demands"
    assert found.startswith("none: ")
    assert remedy == 'Install it: pip install "aotbuild[sign]"'


def test_a_key_does_not_show_itself() -> None:
    key: SigningKey = KEY
    assert "PRIVATE" not in repr(key)
