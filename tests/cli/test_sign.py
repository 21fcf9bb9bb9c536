"""`aotbuild sign` and `keygen`, and `verify --trust`: options, messages, exit codes, openssl."""

from __future__ import annotations

import json
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from attacks import wheels
from attacks.wheels import Files, with_record
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from support.cli import run
from support.projects import write_project

PASSPHRASE = "AOTBUILD_SIGNING_PASSPHRASE"


@pytest.fixture(scope="module")
def files() -> Files:
    return wheels.aot_files(wheels.make_records())


@pytest.fixture(autouse=True)
def _place(files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A current folder with a wheel, an `_aot` folder, and a key."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(PASSPHRASE, raising=False)
    wheels.write_wheel(Path(wheels.NAME), with_record(wheels.wheel_files(files)).items())
    wheels.write_folder(Path("demo/_aot"), files)
    run("keygen", "release.pem")


def document(*args: object, code: int = 0) -> Any:
    return json.loads(run(*args, "--json", code=code).stdout)


def outcome(report: Any) -> Any:
    return next(check for check in report["checks"] if check["check"] == "signature")


def test_keygen() -> None:
    found = document("keygen", "keys.pem")
    assert (found["private"], found["public"], found["error"]) == ("keys.pem", "keys.pub.pem", None)
    assert len(found["key"]) == 64
    assert stat.S_IMODE(Path("keys.pem").stat().st_mode) == 0o600
    before = Path("keys.pem").read_bytes()
    again = run("keygen", "keys.pem", code=6)
    assert again.stderr == "keys.pem: File exists\n"
    assert Path("keys.pem").read_bytes() == before


@pytest.mark.parametrize(
    ("place", "written"), [(wheels.NAME, wheels.NAME), ("demo", "demo/_aot/index.sig")]
)
def test_sign_and_verify(place: str, written: str) -> None:
    found = document("sign", place, "--key", "release.pem")
    assert (found["written"], found["package"], found["failures"]) == (written, "demo", [])
    path = place if place.endswith(".whl") else f"./{place}"
    report = document("verify", path, "--no-run", "--trust", "release.pub.pem")
    assert outcome(report)["status"] == "PASS"
    assert outcome(report)["reasons"] == [f"signed by {found['key']}"]
    run("keygen", "other.pem")
    report = document("verify", path, "--no-run", "--trust", "other.pub.pem", code=9)
    assert outcome(report)["status"] == "FAIL"
    both = ("--trust", "other.pub.pem", "--trust", "release.pub.pem")
    shown = run("verify", path, "--no-run", *both).stdout
    assert f"  signed by {found['key']}\n" in shown
    shown = run("verify", path, "--no-run").stdout
    assert "  no key was given (--trust)\n" in shown


def test_not_signed() -> None:
    assert "  not signed\n" in run("verify", wheels.NAME, "--no-run").stdout
    report = document("verify", wheels.NAME, "--trust", "release.pub.pem", code=9)
    reasons = {c["reasons"][0] for c in report["checks"] if c["check"] == "load"}
    assert reasons == {"its files failed; nothing of it is loaded"}


def test_a_detached_signature() -> None:
    before = Path(wheels.NAME).read_bytes()
    shown = run("sign", wheels.NAME, "--key", "release.pem", "--out", "demo.sig")
    assert shown.stdout.endswith("written to demo.sig\n")
    assert Path(wheels.NAME).read_bytes() == before
    trust = ("--no-run", "--trust", "release.pub.pem")
    run("verify", wheels.NAME, *trust, "--signature", "demo.sig")
    run("verify", wheels.NAME, *trust, code=9)


@pytest.mark.parametrize("target", [wheels.NAME, "release.pem", "demo/_aot/index"])
def test_a_detached_signature_replaces_nothing_else(target: str) -> None:
    before = Path(target).read_bytes()
    result = run("sign", wheels.NAME, "--key", "release.pem", "--out", target, code=6)
    assert result.stderr == f"{target}: is there already and is no signature file; name another\n"
    assert Path(target).read_bytes() == before


def test_a_link_to_a_wheel() -> None:
    Path("links").mkdir()
    link = Path("links", wheels.NAME)
    link.symlink_to(Path(wheels.NAME).absolute())
    run("sign", link, "--key", "release.pem")
    assert link.is_symlink()
    run("verify", wheels.NAME, "--no-run", "--trust", "release.pub.pem")


def test_a_wheel_that_fails_is_not_signed() -> None:
    wheel = Path(wheels.NAME)
    wheel.write_bytes(wheel.read_bytes() + b"x")
    result = run("sign", wheel, "--key", "release.pem", code=9)
    assert result.stderr.startswith(f"FAIL: zip of {wheel}\n")
    assert result.stderr.endswith("nothing was signed\n")
    found = document("sign", wheel, "--key", "release.pem", code=9)
    assert found["written"] is None
    (failure,) = found["failures"]
    assert (failure["check"], failure["status"]) == ("zip", "FAIL")


def test_usage() -> None:
    run("sign", wheels.NAME, code=2)
    run("sign", wheels.NAME, "--key", "absent.pem", code=2)
    run("sign", "absent.whl", "--key", "release.pem", code=2)
    run("verify", wheels.NAME, "--trust", "absent.pem", code=2)
    result = run("sign", wheels.NAME, "--key", "release.pub.pem", code=2)
    assert "expected an Ed25519 private key in PEM" in result.stderr
    private = ec.generate_private_key(ec.SECP256R1())
    pem = private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    Path("ec.pem").write_bytes(pem)
    result = run("sign", wheels.NAME, "--key", "ec.pem", code=2)
    assert "expected an Ed25519 private key, found" in result.stderr
    Path("empty").mkdir()
    run("sign", "empty", "--key", "release.pem", code=7)


def test_a_passphrase(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PASSPHRASE, "open sesame")
    run("keygen", "locked.pem")
    assert b"BEGIN ENCRYPTED PRIVATE KEY" in Path("locked.pem").read_bytes()
    run("sign", "demo", "--key", "locked.pem")
    run("sign", "demo", "--key", "release.pem")
    monkeypatch.delenv(PASSPHRASE)
    result = run("sign", "demo", "--key", "locked.pem", code=2)
    assert f"set {PASSPHRASE}" in result.stderr


@pytest.mark.parametrize(
    "args", [("keygen", "new.pem"), ("sign", wheels.NAME, "--key", "release.pem")]
)
@pytest.mark.process
def test_without_cryptography(args: tuple[str, ...]) -> None:
    code = (
        f"import sys; sys.modules['cryptography'] = None; sys.argv[1:] = {list(args)!r}\n"
        "from aotbuild.cli.__main__ import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 2
    assert 'signing needs cryptography: pip install "aotbuild[sign]"' in done.stderr


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
class TestOpenssl:
    def openssl(self, *args: str) -> str:
        done = subprocess.run(["openssl", *args], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    @pytest.mark.process
    def test_it_verifies_what_aotbuild_signed(self) -> None:
        """The commands of docs/how-to/signing.md."""
        run("sign", "demo", "--key", "release.pem")
        script = """
        { echo 'aotbuild index signature 1'; head -n 2 demo/_aot/index; } > message
        sed -n 's/^ed25519 [0-9a-f]* //p' demo/_aot/index.sig | base64 -d > signature
        openssl pkeyutl -verify -pubin -inkey release.pub.pem -rawin -in message -sigfile signature
        """
        done = subprocess.run(["sh", "-c", script], capture_output=True, text=True)
        assert done.stdout == "Signature Verified Successfully\n", done.stderr

    @pytest.mark.process
    def test_aotbuild_takes_its_keys(self) -> None:
        self.openssl("genpkey", "-algorithm", "ed25519", "-out", "theirs.pem")
        self.openssl("pkey", "-in", "theirs.pem", "-pubout", "-out", "theirs.pub.pem")
        run("sign", wheels.NAME, "--key", "theirs.pem")
        run("verify", wheels.NAME, "--no-run", "--trust", "theirs.pub.pem")


@pytest.mark.process
def test_a_rebuild_drops_the_signature(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    manifest = """\
version: 1
package: proj
targets: [{portable: {platforms: [cpu]}}]
functions:
  double:
    call: proj.code:double
    args: [{x: "f32[2]"}]
"""
    code = "def double(x):\n    return x * 2\n"
    monkeypatch.chdir(write_project(tmp_path / "here", manifest, code=code))
    folder = Path("build", "aot", "proj", "_aot")
    run("build")
    run("sign", folder, "--key", tmp_path / "release.pem")
    assert (folder / "index.sig").is_file()
    run("build")
    assert sorted(path.name for path in folder.iterdir()) == ["blobs", "index"]
