"""Sigstore: real bundles of the library, made and verified with an instance of our own.

The instance runs on this machine. What it cannot show is that the public one answers the same way.
"""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from attacks import wheels
from attacks.wheels import Files, check, with_record
from support import sigstore_instance
from support.cli import run
from support.signing import keys
from support.sigstore_instance import IDENTITY, ISSUER, Instance, identity_token

from aotbuild.format.index import Index
from aotbuild.verify.identity import IdentityOptions
from aotbuild.verify.outcome import Outcome
from aotbuild.verify.signing import sign
from aotbuild.verify.statement import PREDICATE, STATEMENT

pytestmark = pytest.mark.process

WHO = ("--identity", IDENTITY, "--issuer", ISSUER)
SIGN = ("sign", wheels.NAME, "--sigstore", "--trust-config", "trust.json")
BUNDLE = f"{wheels.NAME}.sigstore.json"
LOCK = "pylock.aot-jax.toml"


@pytest.fixture(scope="module")
def files() -> Files:
    return wheels.aot_files(wheels.make_records())


@pytest.fixture(scope="module")
def instance() -> Iterator[Instance]:
    with sigstore_instance.running() as found:
        yield found


@pytest.fixture(autouse=True)
def _place(
    files: Files, instance: Instance, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A current folder with a wheel, an `_aot` folder, a lock, and an identity."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("SIGSTORE_IDENTITY_TOKEN", identity_token())
    wheels.write_wheel(Path(wheels.NAME), with_record(wheels.wheel_files(files)).items())
    wheels.write_folder(Path("demo/_aot"), files)
    Path(LOCK).write_text('lock-version = "1.0"\n')
    Path("trust.json").write_text(json.dumps(instance.trust_config()))
    Path("root.json").write_text(json.dumps(instance.trusted_root()))


def signed(place: str = wheels.NAME) -> Any:
    """Sign a place; return the bundle."""
    run("sign", place, *SIGN[2:])
    return json.loads(Path(f"{place}.sigstore.json").read_bytes())


def statement_of(bundle: Any) -> Any:
    return json.loads(base64.b64decode(bundle["dsseEnvelope"]["payload"]))


def outcome(*arguments: str, place: str = wheels.NAME, code: int = 0) -> Any:
    """Verify a place; return the outcome of the check."""
    trust = () if "--trust-config" in arguments else ("--trust-config", "root.json")
    shown = run("verify", place, "--no-run", "--json", *trust, *arguments, code=code)
    (found,) = (c for c in json.loads(shown.stdout)["checks"] if c["check"] == "identity")
    return found


def test_sign_and_verify_a_wheel(instance: Instance) -> None:
    before = Path(wheels.NAME).read_bytes()
    shown = run(*SIGN, "--lock", LOCK)
    assert shown.stdout == f"signed by {IDENTITY}, as {ISSUER} says\nwritten to {BUNDLE}\n"
    assert instance.requests[-2:] == ["/api/v2/signingCert", "/api/v1/log/entries"]
    assert Path(wheels.NAME).read_bytes() == before
    statement = statement_of(json.loads(Path(BUNDLE).read_bytes()))
    names = [subject["name"] for subject in statement["subject"]]
    assert names == [wheels.NAME, "demo/_aot/index", LOCK]
    assert (statement["_type"], statement["predicateType"]) == (STATEMENT, PREDICATE)
    digest = Index.open(Path("demo/_aot/index").read_bytes(), "index").digest
    assert statement["predicate"] == {"package": "demo", "digest": digest}
    for trust in ("trust.json", "root.json"):
        found = outcome(*WHO, "--lock", LOCK, "--trust-config", trust)
        signer, logged, covers = found["reasons"]
        assert (found["status"], found["subject"]) == ("PASS", BUNDLE)
        assert signer == f"signed by {IDENTITY}, as {ISSUER} says"
        assert logged.startswith("logged at 20")
        assert covers == f"covers {wheels.NAME}, demo/_aot/index, {LOCK}"


def test_other_tools_find_the_wheel_in_the_statement() -> None:
    """The library's own command verifies the wheel with the bundle."""
    signed()
    command = (sys.executable, "-m", "sigstore", "--trust-config", "trust.json", "verify")
    who = ("--cert-identity", IDENTITY, "--cert-oidc-issuer", ISSUER)
    arguments = ("identity", "--offline", "--bundle", BUNDLE, *who, wheels.NAME)
    done = subprocess.run([*command, *arguments], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, f"OK: {wheels.NAME}\n")


def test_a_folder_and_the_wheel_with_the_same_index() -> None:
    signed(place="demo/_aot")
    found = outcome(*WHO, place="./demo")
    assert found["reasons"][-1] == "covers demo/_aot/index"
    found = outcome(*WHO, "--bundle", "demo/_aot.sigstore.json")
    assert found["reasons"][-1] == "covers demo/_aot/index"


def test_the_bundle_of_a_wheel_serves_what_it_installs() -> None:
    run(*SIGN, "--out", "demo.json")
    assert not Path(BUNDLE).exists()
    assert outcome(*WHO, "--bundle", "demo.json", place="./demo/_aot")["status"] == "PASS"


@pytest.mark.parametrize(
    ("who", "found"),
    [
        (("--identity", "mallory@example.org", "--issuer", ISSUER), IDENTITY),
        (("--identity", IDENTITY, "--issuer", "https://example.org"), ISSUER),
    ],
)
def test_another_identity(who: tuple[str, ...], found: str) -> None:
    signed()
    (reason,) = outcome(*who, code=9)["reasons"]
    assert f"expected a bundle signed by {who[1]}, as {who[3]} says\n" in reason
    assert found in reason


def test_another_instance() -> None:
    signed()
    with sigstore_instance.running() as other:
        Path("other.json").write_text(json.dumps(other.trusted_root()))
    (reason,) = outcome(*WHO, "--trust-config", "other.json", code=9)["reasons"]
    assert "certificate chain" in reason
    (reason,) = identity(IdentityOptions(IDENTITY, ISSUER, offline=True)).reasons
    assert "certificate chain" in reason  # the trust root that the library brings


def identity(wanted: IdentityOptions) -> Outcome:
    report = check(Path(wheels.NAME), identity=wanted)
    return next(o for o in report.outcomes if o.check == "identity")


def test_a_wheel_with_other_python_files(files: Files) -> None:
    signed()
    changed = {**wheels.wheel_files(files), "demo/__init__.py": b"import os\n"}
    Path(wheels.NAME).unlink()
    wheels.write_wheel(Path(wheels.NAME), with_record(changed).items())
    (reason,) = outcome(*WHO, code=9)["reasons"]
    assert f"expected one of the files that were signed: {wheels.NAME} sha256:" in reason


def test_another_index(files: Files) -> None:
    signed(place="demo/_aot")
    other = wheels.aot_files(wheels.make_records()[:1])
    wheels.write_folder(Path("other/demo/_aot"), other)
    where = ("--bundle", "demo/_aot.sigstore.json")
    (reason,) = outcome(*WHO, *where, place="./other/demo/_aot", code=9)["reasons"]
    assert "  expected one of the files that were signed: demo/_aot/index sha256:" in reason


def test_a_lock_that_was_not_signed() -> None:
    signed()
    (reason,) = outcome(*WHO, "--lock", LOCK, code=9)["reasons"]
    assert f"  found    {LOCK} sha256:" in reason


def damage_signature(bundle: Any) -> None:
    bundle["dsseEnvelope"]["signatures"][0]["sig"] = base64.b64encode(b"x" * 70).decode()


def damage_payload(bundle: Any) -> None:
    payload = json.dumps({**statement_of(bundle), "predicate": {"package": "other"}})
    bundle["dsseEnvelope"]["payload"] = base64.b64encode(payload.encode()).decode()


def damage_promise(bundle: Any) -> None:
    entry = bundle["verificationMaterial"]["tlogEntries"][0]
    entry["integratedTime"] = str(int(entry["integratedTime"]) + 1)


def damage_certificate(bundle: Any) -> None:
    bundle["verificationMaterial"]["certificate"]["rawBytes"] = base64.b64encode(b"x").decode()


def remove_entry(bundle: Any) -> None:
    bundle["verificationMaterial"]["tlogEntries"] = []


@pytest.mark.parametrize(
    "damage", [damage_signature, damage_payload, damage_promise, damage_certificate, remove_entry]
)
def test_a_changed_bundle(damage: Callable[[Any], None]) -> None:
    bundle = signed()
    damage(bundle)
    Path(BUNDLE).write_text(json.dumps(bundle))
    found = outcome(*WHO, code=9)
    assert found["status"] == "FAIL"
    assert "the package is not trusted" in found["reasons"][0]


@pytest.mark.parametrize("text", ["", "{}", "[]", "x", '{"mediaType": "x"}', "[" * 100_000])
def test_what_is_no_bundle(text: str) -> None:
    Path(BUNDLE).write_text(text)
    assert "expected a bundle of Sigstore" in outcome(*WHO, code=9)["reasons"][0]


def test_no_bundle() -> None:
    (reason,) = outcome(*WHO, code=9)["reasons"]
    assert "  expected a bundle\n  found    No such file or directory\n" in reason


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"mediaType": "trustedroot"}'])
def test_what_is_no_trust_root(text: str) -> None:
    signed()
    Path("wrong.json").write_text(text)
    (reason,) = outcome(*WHO, "--trust-config", "wrong.json", code=9)["reasons"]
    assert "expected a trust root of Sigstore" in reason


SUBJECT = [{"name": wheels.NAME, "digest": {"sha256": "00" * 32}}]
SHA512 = [{"name": wheels.NAME, "digest": {"sha512": "00" * 64}}]


@pytest.mark.parametrize(
    ("kind", "subject", "found"),
    [
        ("https://slsa.dev/provenance/v1", SUBJECT, f"{STATEMENT} of https://slsa.dev/"),
        (PREDICATE, SHA512, "KeyError: 'sha256'"),
    ],
)
def test_a_signed_statement_of_another_kind(
    kind: str, subject: object, found: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    statement = {"_type": STATEMENT, "subject": subject, "predicateType": kind, "predicate": {}}
    text = json.dumps(statement).encode()
    monkeypatch.setattr("aotbuild.verify.attest.make_statement", lambda *_: text)
    monkeypatch.setattr("aotbuild.verify.attest.verify_bundle", lambda *_: ())
    signed()
    assert f"  found    {found}" in outcome(*WHO, code=9)["reasons"][0]


def test_a_key_that_is_demanded_is_not_replaced_by_an_identity(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (key,) = keys(1)
    Path("key.pub.pem").write_bytes(key.public_pem)
    signed()
    trust = ("--trust-config", "root.json")
    shown = run("verify", wheels.NAME, *WHO, *trust, "--trust", "key.pub.pem", code=9)
    assert "FAIL: signature of" in shown.stdout
    assert "PASS: identity of" in shown.stdout
    monkeypatch.setenv("AOTBUILD_TRUST", "key.pub.pem")
    run("verify", wheels.NAME, *WHO, *trust, code=9)
    sign(Path(wheels.NAME), key)
    signed()  # the wheel is another file now
    run("verify", wheels.NAME, "--no-run", *WHO, *trust)


def test_nothing_is_loaded_if_the_identity_fails() -> None:
    signed()
    who = ("--identity", "mallory@example.org", "--issuer", ISSUER, "--trust-config", "root.json")
    document = json.loads(run("verify", wheels.NAME, "--json", *who, code=9).stdout)
    loads = [c["status"] for c in document["checks"] if c["check"] == "load"]
    assert loads == ["NOT CHECKED"] * len(loads) != []


def test_a_wheel_that_fails_is_not_signed(instance: Instance) -> None:
    before = len(instance.requests)
    wheel = Path(wheels.NAME)
    wheel.write_bytes(wheel.read_bytes() + b"x")
    shown = run(*SIGN, code=9)
    assert shown.stderr.endswith("nothing was signed\n")
    assert (len(instance.requests), Path(BUNDLE).exists()) == (before, False)


def test_an_instance_that_does_not_answer() -> None:
    with sigstore_instance.running() as other:
        pass
    Path("trust.json").write_text(json.dumps(other.trust_config()))
    shown = run(*SIGN, code=9)
    failure = f"FAIL: sigstore of {wheels.NAME}\n  Sigstore did not sign it: ConnectionError"
    assert failure in shown.stderr
    assert not Path(BUNDLE).exists()


def test_signing_again_replaces_the_bundle_and_nothing_else() -> None:
    first = signed()
    assert signed() != first
    before = Path(LOCK).read_bytes()
    assert (
        run(*SIGN, "--out", LOCK, code=6).stderr
        == f"{LOCK}: is there already and is no bundle; name another\n"
    )
    assert Path(LOCK).read_bytes() == before


@pytest.mark.parametrize(
    ("token", "words"),
    [
        ("", "no identity to sign with: set"),
        ("x.y.z", "malformed"),
        (identity_token(audience="x"), "malformed"),
    ],
)
def test_no_identity(token: str, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SIGSTORE_IDENTITY_TOKEN", token)
    shown = run(*SIGN, code=2)
    assert words in shown.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("sign", wheels.NAME),
        ("sign", wheels.NAME, "--sigstore", "--key", LOCK),
        ("sign", wheels.NAME, "--key", LOCK, "--lock", LOCK),
        ("sign", wheels.NAME, "--sigstore", "--trust-config", "root.json"),
        ("verify", wheels.NAME, "--identity", IDENTITY),
        ("verify", wheels.NAME, "--issuer", ISSUER),
        ("verify", wheels.NAME, "--offline"),
    ],
    ids=" ".join,
)
def test_wrong_usage(arguments: tuple[str, ...]) -> None:
    assert run(*arguments, code=2).stdout == ""


def test_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    signed()
    monkeypatch.setitem(sys.modules, "sigstore.models", None)
    assert 'pip install "aotbuild[sigstore]"' in outcome(*WHO, code=9)["reasons"][0]
    shown = run(*SIGN, code=2)
    assert '--sigstore needs sigstore: pip install "aotbuild[sigstore]"' in shown.stderr
