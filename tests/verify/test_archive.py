"""Wheels as archives: an honest one passes, every attack is named."""

from __future__ import annotations

import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from attacks import wheels
from attacks.wheels import AOT, INFO, Files, check, edit, failures, special, with_record

from aotbuild.errors import NoArtifacts, PackageNotFound
from aotbuild.verify.outcome import Status
from aotbuild.verify.zip_layout import Limits

INIT = "demo/__init__.py"


@pytest.fixture(scope="module")
def files() -> Files:
    return wheels.wheel_files(wheels.aot_files(wheels.make_records()))


@pytest.fixture
def wheel(files: Files, tmp_path: Path) -> Path:
    return wheels.write_wheel(tmp_path / wheels.NAME, with_record(files).items())


def rewrite(wheel: Path, files: Files) -> Path:
    return wheels.write_wheel(wheel, files.items())


def add(wheel: Path, name: str | zipfile.ZipInfo, data: bytes = b"x") -> Path:
    """Add a member and list it in RECORD, so that only its name or kind is wrong."""
    with zipfile.ZipFile(wheel) as archive:
        old = {n: archive.read(n) for n in archive.namelist() if not n.endswith("/RECORD")}
    text = name if isinstance(name, str) else name.filename
    record = wheels.record_of({**old, text: data})
    members = [*old.items(), (name, data), (f"{INFO}/RECORD", record)]
    return wheels.write_wheel(wheel, members)


def test_an_honest_wheel_passes(wheel: Path) -> None:
    report = check(wheel)
    assert (failures(report), report.passed, report.package) == ({}, True, "demo")
    passed = [o.check for o in report.outcomes if o.status is Status.PASS]
    assert passed == [
        *("zip", "members", "names", "dist-info", "RECORD"),
        *("index", "records", "blobs", "files", "package", "requirements"),
    ]
    # Three records, each neither loaded nor called.
    assert report.count(Status.NOT_CHECKED) == 6


def test_data_descriptors_and_zip64_are_read(files: Files, tmp_path: Path) -> None:
    path = tmp_path / wheels.NAME
    wheels.write_streamed(path, with_record(files), zip64=INIT)
    assert failures(check(path)) == {}
    path.unlink()
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in with_record(files).items():
            with archive.open(name, "w", force_zip64=True) as member:
                member.write(data)
    assert failures(check(path)) == {}


def test_zip64_ends_are_read(files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As Python writes them for sizes above 2 GiB, or for many members."""
    monkeypatch.setattr(zipfile, "ZIP64_LIMIT", 10)
    path = wheels.write_wheel(tmp_path / wheels.NAME, with_record(files).items())
    assert b"PK\x06\x06" in path.read_bytes()
    assert failures(check(path)) == {}
    monkeypatch.undo()
    monkeypatch.setattr(zipfile, "ZIP_FILECOUNT_LIMIT", 1)
    wheels.write_wheel(path, with_record(files).items())
    assert b"PK\x06\x06" in path.read_bytes()
    assert failures(check(path)) == {}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda d: d + b"x", "after the end of the central directory"),
        (lambda d: b"#!/bin/sh\n" + d, "before the archive"),
        (lambda d: d[:-3], "not a zip file|after the end"),
        (lambda d: d[:-2] + b"\x05\x00hello", "comment"),
        (lambda d: wheels.put(d, len(d) - 12, "<H", 1), "the end counts 1 members|before the"),
        (lambda d: wheels.put(d, wheels.local_at(d, INIT) + 30, "<B", 68), "name is b'demo"),
        (lambda d: wheels.put(d, wheels.local_at(d, INIT) + 14, "<I", 7), "CRC is 0 "),
        (lambda d: wheels.put(d, wheels.local_at(d, INIT) + 22, "<I", 7), "size is 0 "),
        (lambda d: wheels.put(d, wheels.local_at(d, INIT) + 8, "<H", 0), "method is 8 "),
        (lambda d: wheels.put(d, wheels.local_at(d, INIT) + 6, "<H", 0x800), "flags is 0 "),
        (lambda d: wheels.put(d, wheels.local_at(d, INIT), "<I", 7), "no local header"),
    ],
)
def test_the_layout(wheel: Path, change: Callable[[bytearray], bytes], expected: str) -> None:
    found = failures(check(edit(wheel, change)))
    assert any(text in found["zip"] for text in expected.split("|")), found


def test_hidden_bytes_and_overlaps(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        first, second = archive.infolist()[:2]
    offset_at = 42

    def share(data: bytearray) -> bytearray:
        place = wheels.central_at(data, second.filename) + offset_at
        return wheels.put(data, place, "<I", first.header_offset)

    def hide(data: bytearray) -> bytes:
        """Put bytes in front of the central directory, where no member is."""
        start = struct.unpack_from("<I", data, len(data) - 6)[0]
        data = data[:start] + b"hidden" + data[start:]
        return bytes(wheels.put(data, len(data) - 6, "<I", start + 6))

    original = wheel.read_bytes()
    assert "an overlap before" in failures(check(edit(wheel, share)))["zip"]
    wheel.write_bytes(original)
    assert "hidden bytes before the central" in failures(check(edit(wheel, hide)))["zip"]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("/etc/passwd", "an absolute path"),
        ("demo/../../x", "not plain"),
        ("demo//x", "not plain"),
        ("./x", "not plain"),
        ("demo\\x", "a backslash"),
        ("C:/x", "a colon"),
        ("demo/x\n", "a control character"),
        ("demo/x.", "ends with a space or a dot"),
        ("demo/NUL.txt", "a device on Windows"),
        (INIT, "is there 2 times"),
        (INIT.upper(), "differ only in case"),
        ("demo/__init__.py/x", "which is a file"),
        (special("demo/link", wheels.LINK), "a symbolic link"),
        (special("demo/dev", wheels.DEVICE), "a device by its attributes"),
        (special("demo/root", wheels.SETUID), "setuid"),
    ],
)
def test_names(wheel: Path, name: str | zipfile.ZipInfo, expected: str) -> None:
    assert expected in failures(check(add(wheel, name)))["names"]


def test_unicode_twins(wheel: Path) -> None:
    add(wheel, "demo/\u00e9.py")
    assert failures(check(wheel)) == {}
    assert "Unicode form" in failures(check(add(wheel, "demo/e\u0301.py")))["names"]


def test_encrypted_and_unusual_members(wheel: Path) -> None:
    def mark(offset: int, central: int, value: int) -> Callable[[bytearray], bytearray]:
        def change(data: bytearray) -> bytearray:
            wheels.put(data, wheels.local_at(data, INIT) + offset, "<H", value)
            return wheels.put(data, wheels.central_at(data, INIT) + central, "<H", value)

        return change

    original = wheel.read_bytes()
    assert "encrypted" in failures(check(edit(wheel, mark(6, 8, 1))))["members"]
    wheel.write_bytes(original)
    assert "method 99" in failures(check(edit(wheel, mark(8, 10, 99))))["members"]


def test_bombs(wheel: Path) -> None:
    limits = Limits(total=2_000_000, ratio=50, ratio_above=100_000)
    assert failures(check(wheel, limits=limits)) == {}
    add(wheel, "demo/zeros", bytes(1_500_000))
    assert "times its size" in failures(check(wheel, limits=limits))["members"]
    add(wheel, "demo/more", bytes(1_500_000))
    assert "bytes when unpacked" in failures(check(wheel, limits=limits))["members"]
    assert "at most 2" in failures(check(wheel, limits=Limits(members=2)))["members"]


def test_a_size_that_lies_is_found_without_unpacking_more(wheel: Path) -> None:
    add(wheel, "demo/zeros", bytes(1_000_000))

    def lie(data: bytearray) -> bytearray:
        wheels.put(data, wheels.local_at(data, "demo/zeros") + 22, "<I", 10)
        start = bytes(data).index(b"PK\x01\x02")
        place = bytes(data).index(b"demo/zeros", start) - 46
        return wheels.put(data, place + 24, "<I", 10)

    assert "expected 1000000 bytes, found 10" in failures(check(edit(wheel, lie)))["RECORD"]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda r, _: r.replace(b"sha256=", b"sha256=A", 1), "expected sha256=A"),
        (lambda r, _: r.replace(b"sha256=", b"md5=", 1), "expected a hash of sha256"),
        (lambda r, _: r.replace(b",0\n", b",1\n", 1), "expected 1 bytes, found 0"),
        (lambda r, _: r + r.splitlines(keepends=True)[0], "is listed twice"),
        (lambda r, _: r + b"demo/gone.py,,\n", "'demo/gone.py' is listed, but not there"),
        (lambda r, _: b"".join(r.splitlines(keepends=True)[1:]), "is there, but not listed"),
        (lambda r, _: r + b"x\n", "expected path, hash and size"),
        (lambda r, _: r + b"\xff,,\n", "RECORD cannot be read"),
        (lambda r, _: r.replace(b"RECORD,,", b"RECORD,sha256=x,"), "a hash of itself"),
        (lambda r, _: r.replace(f"{INFO}/RECORD,,\n".encode(), b""), "does not list itself"),
    ],
)
def test_record(
    files: Files, wheel: Path, change: Callable[[bytes, Files], bytes], expected: str
) -> None:
    record = change(wheels.record_of(files), files)
    found = failures(check(rewrite(wheel, {**files, f"{INFO}/RECORD": record})))
    assert expected in found["RECORD"], found


def test_dist_info(files: Files, wheel: Path) -> None:
    two = with_record({**files, "other-1.0.dist-info/METADATA": b""})
    assert "expected one .dist-info" in failures(check(rewrite(wheel, two)))["dist-info"]
    none = {name: data for name, data in files.items() if not name.startswith(INFO)}
    assert "found none" in failures(check(rewrite(wheel, none)))["dist-info"]
    assert f"{INFO}/RECORD is missing" in failures(check(rewrite(wheel, files)))["dist-info"]
    renamed = wheel.rename(wheel.with_name("demo-2.0-py3-none-any.whl"))
    rewrite(renamed, with_record(files))
    assert "expected demo 2.0, found demo 1.0" in failures(check(renamed))["dist-info"]


@pytest.mark.parametrize(
    ("requires", "expected"),
    [
        ((), "expected Requires-Dist: jaxlib=="),
        (("jaxlib>=0.1",), "without a condition, found jaxlib>=0.1"),
        ((f"{wheels.REQUIRES[1]}; python_version > '3'",), "found none"),
        ((f"{wheels.REQUIRES[1]}; extra == 'x'",), "found none"),
        (("jaxlib==",), "Requires-Dist: 'jaxlib=='"),
        (wheels.REQUIRES[:2], "expected Requires-Dist: flatbuffers, found none"),
    ],
)
def test_requirements(files: Files, wheel: Path, requires: tuple[str, ...], expected: str) -> None:
    aot = {n.removeprefix(f"{AOT}/"): d for n, d in files.items() if n.startswith(AOT)}
    rewrite(wheel, with_record(wheels.wheel_files(aot, requires)))
    assert expected in failures(check(wheel))["requirements"]


def test_strays_and_wrong_packages(files: Files, wheel: Path) -> None:
    stray = with_record({**files, f"{AOT}/blobs/extra.so": b"x"})
    found = failures(check(rewrite(wheel, stray)))
    assert found == {"files": "'blobs/extra.so' belongs to no record"}
    moved = {name.replace(AOT, "else/_aot"): data for name, data in files.items()}
    assert failures(check(rewrite(wheel, with_record(moved)))) == {
        "package": "the index is of demo: expected demo/_aot"
    }
    both = {**files, "else/_aot/index": files[f"{AOT}/index"]}
    assert "one _aot folder" in failures(check(rewrite(wheel, with_record(both))))["index"]


def test_places_that_hold_nothing(files: Files, tmp_path: Path) -> None:
    with pytest.raises(PackageNotFound):
        check(tmp_path / "gone.whl")
    (tmp_path / "empty.whl").touch()
    assert "not a zip file" in failures(check(tmp_path / "empty.whl"))["zip"]
    plain = with_record({n: d for n, d in files.items() if not n.startswith(AOT)})
    wheel = wheels.write_wheel(tmp_path / wheels.NAME, plain.items())
    with pytest.raises(NoArtifacts):
        check(wheel)
