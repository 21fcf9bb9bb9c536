"""Signatures as `verify` sees them, and signing: what is refused, and what stays as it was."""

from __future__ import annotations

import stat
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from attacks import wheels
from attacks.wheels import AOT, INFO, Built, Files, check, failures, loads, with_record
from support.signing import keys, public_file, put_seals, seal_of, sign_folder

from aotbuild.errors import NoArtifacts, PackageNotFound
from aotbuild.format import protobuf
from aotbuild.format.signing import Seal, read_seals, write_seals
from aotbuild.verify.api import NO_KEY, NOT_SIGNED, SignatureOptions
from aotbuild.verify.outcome import Outcome, Status
from aotbuild.verify.signing import Signed, sign

KEY, OTHER = keys(2)
SEALS = f"{AOT}/index.sig"


@pytest.fixture(scope="module")
def built() -> list[Built]:
    return wheels.make_records()


@pytest.fixture(scope="module")
def aot(built: list[Built]) -> Files:
    return wheels.aot_files(built)


@pytest.fixture
def wheel(aot: Files, tmp_path: Path) -> Path:
    members = with_record(wheels.wheel_files(aot)).items()
    return wheels.write_wheel(tmp_path / wheels.NAME, members)


@pytest.fixture
def folder(aot: Files, tmp_path: Path) -> Path:
    return wheels.write_folder(tmp_path / "plain" / "_aot", aot)


def signature(place: Path, *trusted: bytes, file: Path | None = None) -> Outcome:
    """Return the outcome of the check `signature`; nothing else may fail."""
    report = check(place, signature=SignatureOptions(trusted or None, file))
    assert set(failures(report)) <= {"signature"}
    return next(o for o in report.outcomes if o.check == "signature")


def signed(place: Path, *by: object, out: Path | None = None) -> Signed:
    done = [sign(place, key, out) for key in by or (KEY,)]  # type: ignore[arg-type]
    assert all(failures(one.report) == {} and one.written for one in done)
    return done[-1]


class TestVerify:
    def test_not_signed(self, wheel: Path, folder: Path) -> None:
        for place in (wheel, folder):
            outcome = signature(place)
            assert (outcome.status, outcome.reasons) == (Status.NOT_CHECKED, (NOT_SIGNED,))
            demanded = signature(place, KEY.public_pem)
            assert demanded.status is Status.FAIL
            assert "no such file: the package is not signed" in demanded.reasons[0]

    def test_signed(self, wheel: Path, folder: Path) -> None:
        for place in (wheel, folder):
            signed(place)
            outcome = signature(place)
            assert (outcome.status, outcome.reasons) == (Status.NOT_CHECKED, (NO_KEY,))
            passed = signature(place, OTHER.public_pem, KEY.public_pem)
            assert (passed.status, passed.reasons) == (Status.PASS, (f"signed by {KEY.key_id}",))
            assert signature(place, OTHER.public_pem).status is Status.FAIL

    def test_a_file_beside_the_package(self, wheel: Path, folder: Path, tmp_path: Path) -> None:
        before, out = wheel.read_bytes(), tmp_path / "demo.sig"
        assert signed(wheel, out=out).written == out
        assert wheel.read_bytes() == before
        for place in (wheel, folder):
            assert signature(place, KEY.public_pem, file=out).status is Status.PASS
            assert signature(place, OTHER.public_pem, file=out).status is Status.FAIL
            assert signature(place, file=out).reasons == (NO_KEY,)
        out.write_bytes(b"x")
        assert signature(wheel, KEY.public_pem, file=out).status is Status.FAIL
        assert signature(wheel, file=out).status is Status.FAIL

    def test_an_empty_list_trusts_nobody(self, wheel: Path) -> None:
        signed(wheel)
        outcome = failures(check(wheel, signature=SignatureOptions([])))
        assert "--trust to name Ed25519 public keys" in outcome["signature"]

    def test_the_variable(
        self, wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("AOTBUILD_TRUST", str(public_file(tmp_path / "k", OTHER)))
        signed(wheel)
        assert signature(wheel, KEY.public_pem).status is Status.FAIL
        signed(wheel, OTHER)
        outcome = signature(wheel, KEY.public_pem)
        assert outcome.reasons == tuple(f"signed by {k.key_id}" for k in (KEY, OTHER))

    @pytest.mark.process
    def test_nothing_is_loaded_from_what_is_not_signed(self, folder: Path) -> None:
        report = check(folder, load=True, signature=SignatureOptions([KEY.public_pem]))
        assert {o.status for o in loads(report).values()} == {Status.NOT_CHECKED}
        sign_folder(folder, KEY)
        report = check(folder, load=True, signature=SignatureOptions([KEY.public_pem]))
        assert {o.status for o in loads(report).values()} == {Status.PASS}

    def test_an_installed_package_must_be_the_one_asked_for(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        sign_folder(folder, KEY)
        monkeypatch.syspath_prepend(str(folder.parent.parent))
        report = check(Path("plain"), signature=SignatureOptions([KEY.public_pem]))
        assert "expected the index of package 'plain'" in failures(report)["signature"]
        assert failures(check(Path("plain"))) == {}

    @pytest.mark.parametrize(
        "data",
        [b"", b"\0" * 100, b"aotbuild-signatures 1\r\n", b"aotbuild-signatures 1\n" * 9000],
    )
    def test_a_file_that_is_none_fails_without_a_key(self, folder: Path, data: bytes) -> None:
        (folder / "index.sig").write_bytes(data)
        assert signature(folder).status is Status.FAIL

    def test_a_broken_index_is_not_asked(self, folder: Path) -> None:
        sign_folder(folder, KEY)
        (folder / "index").write_bytes(b"x")
        report = check(folder, signature=SignatureOptions([KEY.public_pem]))
        assert report.outcomes[-1].reasons == ("the index failed",)
        assert set(failures(report)) == {"index"}


class TestAttacks:
    def mend(self, wheel: Path, built: list[Built], seals: bytes) -> Path:
        """Change a record of a signed wheel and mend every digest: index, blobs and RECORD."""
        other = wheels.bytes_of(built[0]) + protobuf.bytes_field(100, b"back door")
        changed = [wheels.with_other_bytes(built[0], other), *built[1:]]
        files = {**wheels.aot_files(changed), "index.sig": seals}
        return wheels.write_wheel(wheel, with_record(wheels.wheel_files(files)).items())

    def seals(self, wheel: Path) -> bytes:
        with zipfile.ZipFile(wheel) as archive:
            return archive.read(SEALS)

    def test_fresh_digests_do_not_help(self, wheel: Path, built: list[Built]) -> None:
        signed(wheel)
        self.mend(wheel, built, self.seals(wheel))
        assert failures(check(wheel)) == {}
        assert "the signature does not verify" in signature(wheel, KEY.public_pem).reasons[0]

    def test_nor_does_a_key_of_ones_own(self, wheel: Path, built: list[Built]) -> None:
        signed(wheel)
        self.mend(wheel, built, self.seals(wheel))
        signed(wheel, OTHER)
        assert signature(wheel, OTHER.public_pem).status is Status.PASS
        assert signature(wheel, KEY.public_pem).status is Status.FAIL

    def test_a_signature_of_another_wheel(
        self, wheel: Path, folder: Path, built: list[Built]
    ) -> None:
        other = wheels.write_folder(folder.parent / "other", wheels.aot_files(built[:1]))
        put_seals(folder, seal_of(other, KEY))
        assert "does not verify" in signature(folder, KEY.public_pem).reasons[0]

    def test_a_swapped_blob(self, folder: Path) -> None:
        sign_folder(folder, KEY)
        blob = next((folder / "blobs").iterdir())
        blob.write_bytes(bytes(blob.stat().st_size))
        report = check(folder, load=True, signature=SignatureOptions([KEY.public_pem]))
        assert set(failures(report)) == {"blobs"}
        assert {o.status for o in loads(report).values()} == {Status.NOT_CHECKED}


class TestSigning:
    def test_everything_else_stays(self, wheel: Path) -> None:
        before = wheel.read_bytes()
        wheel.chmod(0o640)
        signed(wheel)
        after = wheel.read_bytes()
        with zipfile.ZipFile(wheel) as archive:
            infos = archive.infolist()
            text = archive.read(f"{INFO}/RECORD").decode()
        assert [i.filename for i in infos][-2:] == [SEALS, f"{INFO}/RECORD"]
        assert after[: infos[-2].header_offset] == before[: infos[-2].header_offset]
        rows = text.splitlines()
        assert rows[-2].startswith(f"{SEALS},sha256=")
        assert stat.S_IMODE(wheel.stat().st_mode) == 0o640
        assert [p.name for p in wheel.parent.iterdir() if p.name.startswith(".")] == []
        with zipfile.ZipFile(wheel) as archive:
            times = {archive.getinfo(f"{AOT}/{name}").date_time for name in ("index", "index.sig")}
        assert len(times) == 1

    def test_equal_inputs_give_equal_bytes(self, wheel: Path, tmp_path: Path) -> None:
        unsigned = wheel.read_bytes()
        signed(wheel)
        once = wheel.read_bytes()
        signed(wheel)
        assert wheel.read_bytes() == once
        copy = tmp_path / "copy" / wheels.NAME
        copy.parent.mkdir()
        copy.write_bytes(unsigned)
        signed(copy)
        assert copy.read_bytes() == once

    def test_the_order_of_keys_does_not_matter(self, wheel: Path) -> None:
        unsigned = wheel.read_bytes()
        signed(wheel, KEY, OTHER)
        both = wheel.read_bytes()
        wheel.write_bytes(unsigned)
        signed(wheel, OTHER, KEY)
        assert wheel.read_bytes() == both
        assert signature(wheel, KEY.public_pem, OTHER.public_pem).status is Status.PASS

    def test_a_folder(self, folder: Path) -> None:
        before = {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()}
        assert signed(folder).written == folder / "index.sig"
        signed(folder.parent, OTHER)
        seals = read_seals((folder / "index.sig").read_bytes(), "")
        assert [seal.key_id for seal in seals] == [KEY.key_id, OTHER.key_id]
        after = {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()}
        assert after == {**before, folder / "index.sig": write_seals(seals)}

    def test_a_wrong_signature_of_ones_own_is_renewed(self, wheel: Path, folder: Path) -> None:
        put_seals(folder, Seal(KEY.key_id, bytes(64)))
        signed(folder)
        assert signature(folder, KEY.public_pem).status is Status.PASS

    def test_record_in_the_middle_and_descriptors(self, aot: Files, tmp_path: Path) -> None:
        members = with_record(wheels.wheel_files(aot))
        record = members.pop(f"{INFO}/RECORD").replace(b"\n", b"\r\n")
        path = tmp_path / wheels.NAME
        ordered = {f"{INFO}/RECORD": record, **members}
        with path.open("wb") as raw, zipfile.ZipFile(Pipe(raw), "w") as archive:  # type: ignore[arg-type]
            for name, data in ordered.items():
                archive.writestr(name, data, zipfile.ZIP_DEFLATED)
        signed(path)
        once = path.read_bytes()
        signed(path)
        assert path.read_bytes() == once
        with zipfile.ZipFile(path) as archive:
            assert archive.namelist() == [SEALS, *ordered]
            lines = archive.read(f"{INFO}/RECORD").splitlines(keepends=True)
            assert all(archive.read(name) == data for name, data in members.items())
        assert all(line.endswith(b"\r\n") for line in lines)

    @pytest.mark.parametrize(
        ("change", "expected"),
        [
            (lambda d: d + b"x", "zip"),
            (lambda d: d[:-9], "zip"),
            (lambda d: wheels.put(d, wheels.local_at(d, "demo/__init__.py") + 14, "<I", 7), "zip"),
        ],
    )
    def test_archives_that_fail_are_not_signed(
        self, wheel: Path, change: Callable[[bytearray], bytes], expected: str
    ) -> None:
        wheels.edit(wheel, change)
        before = wheel.read_bytes()
        result = sign(wheel, KEY)
        assert result.written is None
        assert expected in failures(result.report)
        assert wheel.read_bytes() == before

    def test_contents_that_fail_are_not_signed(
        self, aot: Files, folder: Path, tmp_path: Path
    ) -> None:
        name = next(name for name in aot if name.endswith(".pjrt"))
        damaged = {**aot, name: b"x" * len(aot[name])}
        members = with_record(wheels.wheel_files(damaged)).items()
        wheel = wheels.write_wheel(tmp_path / wheels.NAME, members)
        (folder / name).write_bytes(damaged[name])
        for place in (wheel, folder):
            result = sign(place, KEY, tmp_path / "out.sig")
            assert (result.written, set(failures(result.report))) == (None, {"blobs"})
            assert sign(place, KEY).written is None
        assert not (tmp_path / "out.sig").exists()
        assert not (folder / "index.sig").exists()

    def test_a_signature_over_record_is_not_broken(self, aot: Files, tmp_path: Path) -> None:
        files = with_record(wheels.wheel_files(aot)) | {f"{INFO}/RECORD.jws": b"{}"}
        wheel = wheels.write_wheel(tmp_path / wheels.NAME, files.items())
        result = sign(wheel, KEY)
        assert "use --out" in failures(result.report)["signature"]
        signed(wheel, out=tmp_path / "out.sig")

    def test_what_is_not_there(self, tmp_path: Path) -> None:
        with pytest.raises(PackageNotFound):
            sign(tmp_path / "absent.whl", KEY)
        with pytest.raises(NoArtifacts):
            sign(tmp_path, KEY)

    def test_a_demand_does_not_stop_signing(
        self, wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("AOTBUILD_TRUST", str(public_file(tmp_path / "k", OTHER)))
        signed(wheel)


class Pipe:
    """A file that cannot seek, so that a zip written to it needs data descriptors."""

    def __init__(self, file: object) -> None:
        self.write, self.flush = file.write, file.flush  # type: ignore[attr-defined]


@pytest.mark.process
def test_verify_without_a_key_imports_no_cryptography(folder: Path) -> None:
    code = (
        "import sys; from aotbuild.verify.api import *; from aotbuild.cli.app import run; "
        "verify(sys.argv[1], Options(load=False)); print('cryptography' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(sign_folder(folder, KEY))], capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (0, "False\n"), done.stderr
