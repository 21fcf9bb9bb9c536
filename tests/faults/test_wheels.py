"""Wheels that readers of zip files, or installers, take for different files: `verify` fails them.

Their RECORD is right for what zipfile reads, so that only the archive can betray them.
"""

from __future__ import annotations

import struct
import zipfile
import zlib
from pathlib import Path

import jaxlib
import pytest
from attacks import wheels
from attacks.wheels import Files
from support.cli import invoke
from support.packages import Built

from aotbuild.build.requirements import pins
from aotbuild.format.index import write_index

RAN = 9  # docs/reference/cli.md: a check failed
JAXLIB = jaxlib.__version__
NOTE = "demo/note.txt"
DATA = b"text " * 100


@pytest.fixture(scope="module")
def built() -> list[Built]:
    return wheels.make_records()


@pytest.fixture(scope="module")
def files(built: list[Built]) -> Files:
    aot = wheels.aot_files(built)
    return {NOTE: DATA, **wheels.wheel_files(aot)}


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    return tmp_path / wheels.NAME


def assert_fails(wheel: Path, says: str) -> None:
    ended = invoke("verify", wheel, "--no-run")
    assert ended.exit_code == RAN, ended.output
    assert says in ended.output


def assert_passes(wheel: Path) -> None:
    ended = invoke("verify", wheel, "--no-run")
    assert ended.exit_code == 0, ended.output


def extra(*fields: tuple[int, bytes]) -> bytes:
    return b"".join(struct.pack("<2H", kind, len(data)) + data for kind, data in fields)


def renamed(name: str) -> bytes:
    """Return the extra field by which a reader calls the member NOTE by another name."""
    data = struct.pack("<BL", 1, zlib.crc32(NOTE.encode())) + name.encode()
    return extra((0x7075, data))


EXTRAS = {
    "another name": (renamed("demo/other.py"), "gives it another name"),
    "a name that leaves the folder": (renamed("../../x.py"), "gives it another name"),
    "the name of another member": (renamed("demo/__init__.py"), "gives it another name"),
    "sizes that its header has": (extra((1, struct.pack("<2Q", 5, 5))), "zip64 field"),
}


@pytest.mark.parametrize("fault", EXTRAS)
def test_an_extra_field_states(fault: str, files: Files, wheel: Path) -> None:
    field, says = EXTRAS[fault]
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, data in wheels.with_record(files).items():
            info = zipfile.ZipInfo(name)
            info.extra = field if name == NOTE else b""
            archive.writestr(info, data)
    assert_fails(wheel, says)


def two_directories(data: bytearray) -> bytes:
    """Return an archive whose zip64 end names a directory inside an extra field of the other."""
    (start,) = struct.unpack_from("<I", data, len(data) - 6)
    (count,) = struct.unpack_from("<H", data, len(data) - 12)
    inner = bytes(data[start:-22])
    place = start + len(inner) + 4
    end = struct.pack("<4sQ2H2I4Q", b"PK\6\6", 44, 45, 45, 0, 0, count, count, len(inner), place)
    locator = struct.pack("<4sIQI", b"PK\6\7", 0, place + len(inner), 1)
    field = extra((0xCAFE, inner + end + locator))
    outer = bytearray(inner)
    struct.pack_into("<H", outer, outer.rindex(b"PK\1\2") + 30, len(field))
    outer += field
    plain = struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, count, count, len(outer), start, 0)
    return bytes(data[:start] + outer + plain)


def test_two_central_directories(files: Files, wheel: Path) -> None:
    wheels.write_wheel(wheel, wheels.with_record(files).items())
    wheels.edit(wheel, two_directories)
    assert_fails(wheel, "name different ones")


def in_another_file(data: bytearray) -> bytearray:
    return wheels.put(data, wheels.central_at(data, NOTE) + 34, "<H", 1)


def test_a_member_in_another_file(files: Files, wheel: Path) -> None:
    wheels.write_wheel(wheel, wheels.with_record(files).items())
    assert_fails(wheels.edit(wheel, in_another_file), "it is in another file")


def deflated_note(data: bytearray) -> bytearray:
    """Say in both headers that NOTE, which is stored, is DATA and deflated."""
    local, central = wheels.local_at(data, NOTE), wheels.central_at(data, NOTE)
    for at, method, crc, size in ((local, 8, 14, 22), (central, 10, 16, 24)):
        wheels.put(data, at + method, "<H", zipfile.ZIP_DEFLATED)
        wheels.put(data, at + crc, "<I", zlib.crc32(DATA))
        wheels.put(data, at + size, "<I", len(DATA))
    return data


DEFLATED = zlib.compress(DATA, wbits=-15)
STREAMS = {
    "the truth": (DEFLATED, ""),
    "bytes after its end": (DEFLATED + b"hidden", "6 hidden bytes"),
    "no end": (DEFLATED[:-1], "has no end"),
}


@pytest.mark.parametrize("fault", STREAMS)
def test_compressed_data_has(fault: str, files: Files, wheel: Path) -> None:
    deflated, says = STREAMS[fault]
    whole = wheels.with_record(files)
    stored = {name: deflated if name == NOTE else data for name, data in whole.items()}
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, data in stored.items():
            archive.writestr(name, data)
    wheels.edit(wheel, deflated_note)
    if says:
        assert_fails(wheel, says)
    else:
        assert_passes(wheel)


# With a data descriptor: where the numbers of NOTE are, from its local header.
AFTER = 30 + len(NOTE) + len(DATA)
NUMBERS = {
    "a CRC in the header": (14, "CRC is"),
    "a compressed size in the header": (18, "compressed size is"),
    "a size in the header": (22, "size is"),
    "a CRC after the data": (AFTER + 4, "its data descriptor is not"),
    "a compressed size after the data": (AFTER + 8, "its data descriptor is not"),
    "a size after the data": (AFTER + 12, "its data descriptor is not"),
}


@pytest.mark.parametrize("fault", NUMBERS)
def test_a_lie_beside_a_data_descriptor(fault: str, files: Files, wheel: Path) -> None:
    offset, says = NUMBERS[fault]

    def lie(data: bytearray) -> bytearray:
        return wheels.put(data, wheels.local_at(data, NOTE) + offset, "<I", 7)

    wheels.write_streamed(wheel, wheels.with_record(files))
    assert_passes(wheel)
    assert_fails(wheels.edit(wheel, lie), says)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("demo-1.0.data/purelib/demo/note.txt", "are installed to one place"),
        ("demo-1.0.data/platlib/DEMO/note.txt", "are installed to one place"),
        ("Demo-1.0.DATA/PureLib/demo/note.txt", "are installed to one place"),
        ("demo-1.0.data/data/lib/python3.12/site-packages/demo/note.txt", "to one place"),
        ("demo-1.0.data/purelib/demo/note.txt/x", "which is a file"),
        ("demo-1.0.data/purelib/demo-1.0.dist-info/METADATA", "are installed to one place"),
        ("demo-1.0.data/platlib/demo/_aot/index", "after all checks"),
        ("demo-1.0.data/platlib/demo/_aot/index.sig", "after all checks"),
        ("demo-1.0.data/platlib/demo/_AOT/blobs/x.pjrt", "after all checks"),
    ],
)
def test_a_file_that_is_installed_over_another(
    name: str, says: str, files: Files, wheel: Path
) -> None:
    wheels.write_wheel(wheel, wheels.with_record({**files, name: b"x"}).items())
    assert_fails(wheel, says)


def test_files_that_are_installed_beside_others(files: Files, wheel: Path) -> None:
    beside = {
        "demo/": b"",
        "demo-1.0.data/purelib/": b"",
        "demo-1.0.data/purelib/demo/": b"",
        "demo-1.0.data/purelib/demo/more.txt": b"x",
        "demo-1.0.data/scripts/demo": b"x",
        "demo-1.0.data/data/share/demo/note.txt": b"x",
    }
    whole = {**files, **beside}
    listed = {name: data for name, data in whole.items() if not name.endswith("/")}
    record = {f"{wheels.INFO}/RECORD": wheels.record_of(listed)}
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, data in {**whole, **record}.items():
            archive.writestr(name, data)
    assert_passes(wheel)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("demo/com\u00b9.txt", "a device on Windows"),
        ("demo/CONIN$", "a device on Windows"),
        ("demo/aux .txt", "a device on Windows"),
        ("demo/a?.txt", "that Windows reserves"),
        ("demo/a\u202eyp.txt", "an invisible character"),
        ("demo/mod\u200bel.py", "an invisible character"),
        ("demo/" + "a" * 256, "above 255 bytes"),
        ("demo/" + "a/" * 600 + "x", "above 255 bytes, or 1024 in all"),
    ],
)
def test_a_name_that_not_every_system_takes(
    name: str, says: str, files: Files, wheel: Path
) -> None:
    wheels.write_wheel(wheel, wheels.with_record({**files, name: b"x"}).items())
    assert_fails(wheel, says)


def required(*lines: str) -> tuple[str, ...]:
    """Return the requirements of a wheel with executables, with these lines of jax and jaxlib."""
    return ("aotbuild>=0.1,<0.2", "flatbuffers", *lines)


EXACT = f"jaxlib=={JAXLIB}"
REQUIREMENTS = {
    "later ones": ((f"jaxlib>={JAXLIB},<=99.0",), "which allows later ones"),
    "all up to a later one": (("jaxlib<=99.0",), "which allows older ones"),
    "a prefix": (("jaxlib==0.*",), "which allows older ones"),
    "another one beside it": ((EXACT, "jaxlib==0.4.1"), "jaxlib==0.4.1"),
    "a URL beside it": ((EXACT, "jaxlib @ https://example.org/j.whl"), "found a URL"),
    "a URL of jax": ((EXACT, "jax @ https://example.org/j.whl"), "found a URL"),
    "a URL under a condition": (
        (EXACT, "jaxlib @ https://example.org/j.whl ; python_version > '3'"),
        "found a URL",
    ),
    "an old jax": ((EXACT, "jax==0.4.1"), "expected Requires-Dist: jax=="),
}


def with_requirements(wheel: Path, built: list[Built], versions: str, *lines: str) -> Path:
    header = {"package": "demo", "fallback": "none", "jax": versions, "jaxlib": versions}
    functions = {item.function.name: item.function for item in built}.values()
    index = write_index(header, functions, [item.record for item in built])
    aot = {"index": index, **{path: data for item in built for path, data in item.blobs.items()}}
    files = wheels.with_record(wheels.wheel_files(aot, required(*lines)))
    return wheels.write_wheel(wheel, files.items())


@pytest.mark.parametrize("fault", REQUIREMENTS)
def test_requirements_allow(fault: str, built: list[Built], wheel: Path) -> None:
    lines, says = REQUIREMENTS[fault]
    assert_fails(with_requirements(wheel, built, JAXLIB, *lines), says)


def test_requirements_allow_one_between(built: list[Built], wheel: Path) -> None:
    lines = (f"jaxlib>=0.1.0,<={JAXLIB}",)
    wheel = with_requirements(wheel, built, f"0.1.0, {JAXLIB}", *lines)
    assert_fails(wheel, "which allows 0.1.0.1")


@pytest.mark.parametrize("versions", [(JAXLIB,), ("0.9.0", JAXLIB), ("0.8.1", "0.9.0.1", JAXLIB)])
@pytest.mark.parametrize("portable", [False, True])
def test_requirements_that_builds_write(
    versions: tuple[str, ...], portable: bool, built: list[Built], wheel: Path
) -> None:
    names = ("jax", "jaxlib")
    lines = [line for n in names for line in pins(n, versions, native=True, portable=portable)]
    chosen = built if portable else [b for b in built if not b.record.target.is_portable]
    assert_passes(with_requirements(wheel, chosen, ", ".join(versions), *lines))


def test_requirements_of_portable_forms(built: list[Built], wheel: Path) -> None:
    portable = [b for b in built if b.record.target.is_portable]
    lines = [
        line
        for name in ("jax", "jaxlib")
        for line in pins(name, ["0.9.0", JAXLIB], native=False, portable=True)
    ]
    assert_passes(with_requirements(wheel, portable, f"0.9.0, {JAXLIB}", *lines))
    lines = ["jaxlib>=0.1"]
    assert_fails(with_requirements(wheel, portable, JAXLIB, *lines), "which allows older ones")
