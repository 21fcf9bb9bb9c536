"""Wheels as zip files: what `verify` passes unpacks as RECORD says.

Opening them must not raise anything but aotbuild's errors and OSError.
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
    from aotbuild.runtime.wheel_source import WheelSource
    from aotbuild.verify.contents import check_contents, check_wheel_file, files_of_wheel

NAME = "p-1-py3-none-any.whl"


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
    passed = not check_wheel_file(path).status.is_failure
    if passed:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            assert archive.testzip() is None
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


def main() -> None:
    atheris.Setup(sys.argv, TestOneInput)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
