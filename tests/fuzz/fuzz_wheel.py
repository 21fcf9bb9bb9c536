"""Wheels and files of stages as zip files: what the checks pass, zipfile reads as they say.

What `verify` finds in order must be readable byte for byte, and opening it must not raise anything
but aotbuild's errors and OSError.
"""

import contextlib
import io
import struct
import sys
import zipfile

import atheris
from support.fuzz_files import as_file

with atheris.instrument_imports(include=["aotbuild"]):
    from aotbuild.errors import AotbuildError
    from aotbuild.runtime.stages import StagesFile
    from aotbuild.runtime.wheel_source import WheelSource
    from aotbuild.verify.archive import check_archive
    from aotbuild.verify.contents import check_contents, files_of_wheel
    from aotbuild.verify.kept_stages import _archive_problems
    from aotbuild.verify.zip_layout import Limits

NAME = "p-1-py3-none-any.whl"
LIMITS = Limits(members=1000, total=1 << 22, ratio_above=1 << 16)


def TestOneInput(data: bytes) -> None:
    for each in {data, with_right_end(data)}:
        check(each)


def with_right_end(data: bytes) -> bytes:
    """Return a zip whose end record points to its central directory, wherever edits moved it."""
    start, end = data.find(b"PK\1\2"), data.rfind(b"PK\5\6")
    if start < 0 or end < start or end + 22 > len(data):
        return data
    count = data.count(b"PK\1\2", start, end)
    fields = (0, 0, count, count, end - start, start, 0)
    return data[: end + 4] + struct.pack("<4H2IH", *fields)


def check(data: bytes) -> None:
    path = as_file(data, NAME)
    outcomes = check_archive(path, LIMITS)
    passed = not any(outcome.status.is_failure for outcome in outcomes)
    if passed:
        # Each byte belongs to one member, and every member unpacks to what RECORD says.
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            assert archive.testzip() is None
            assert sum(info.file_size for info in archive.infolist()) <= LIMITS.total
    try:
        source = WheelSource(path)
    except AotbuildError as err:
        str(err).encode("utf-8", "backslashreplace")
    else:
        with contextlib.closing(source):
            for name in ("index", "blobs/x.pjrt"):
                with contextlib.suppress(OSError):
                    source.read(name, 1 << 16)
            if passed:
                check_contents(source, files_of_wheel(path))
    try:
        with contextlib.closing(StagesFile(path)) as stages:
            for name in stages.names()[:4]:
                with contextlib.suppress(OSError):
                    stages.read(name, 1 << 16)
    except AotbuildError as err:
        str(err).encode("utf-8", "backslashreplace")
    list(_archive_problems(path, LIMITS))


def main() -> None:
    atheris.Setup(sys.argv, TestOneInput)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
