"""The commands that read a wheel or a package, a wheel for them, and a limit for their waiting."""

from __future__ import annotations

import signal
import struct
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from faults.ended import LIMIT

WHEEL = "demo-1.0-py3-none-any.whl"
INFO = "demo-1.0.dist-info"
# {} is for the wheel.
OF_WHEELS: tuple[tuple[str, ...], ...] = (
    ("inspect", "{}", "--json"),
    ("diff", "{}", "{}"),
    ("verify", "{}", "--no-run"),
    ("verify", "{}"),
    ("split", "{}", "--out", "out"),
    ("merge", "{}", "{}", "--out", "out"),
)
OF_FOLDERS: tuple[tuple[str, ...], ...] = (
    ("inspect", "_aot"),
    ("verify", "_aot", "--no-run"),
    ("diff", "_aot", "_aot"),
)


@contextmanager
def no_hang() -> Iterator[None]:
    """Raise AssertionError in what waits for ever, as for the writer of a pipe."""

    def stop(*_: object) -> None:
        msg = "hangs"
        raise AssertionError(msg)

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(LIMIT // 4)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def wheel_with(place: Path, honest: Path, **bombs: int) -> Path:
    """Write a wheel with members of so many zeros, which compress by a factor of 1,000."""
    with zipfile.ZipFile(place, "w", zipfile.ZIP_DEFLATED) as archive:
        files = {
            "demo/_aot/index": (honest / "index").read_bytes(),
            f"{INFO}/METADATA": b"Metadata-Version: 2.1\nName: demo\nVersion: 1.0\n",
            f"{INFO}/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
            f"{INFO}/RECORD": b"",
        }
        for name, data in files.items():
            archive.writestr(name, data)
    for name, size in bombs.items():
        member = next(each for each in files if each.endswith(name))
        claim(place, member, size)
    return place


def claim(place: Path, member: str, size: int) -> None:
    """Have both headers of a member say that it unpacks to so many bytes."""
    with zipfile.ZipFile(place) as archive:
        info, start = archive.getinfo(member), archive.start_dir
    data = bytearray(place.read_bytes())
    struct.pack_into("<I", data, info.header_offset + 22, size)
    entry = data.index(member.encode(), start) - 46
    struct.pack_into("<I", data, entry + 24, size)
    place.write_bytes(data)
