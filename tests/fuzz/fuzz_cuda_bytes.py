"""CUDA executables: records of Riegeli and Snappy are unpacked, or NotReadable."""

import contextlib
import sys

import atheris

with atheris.instrument_imports(include=["aotbuild"]):
    from aotbuild.format.protobuf import Malformed
    from aotbuild.platforms.cuda.executables import _SIGNATURE, NotReadable, _unsnappy, records


def TestOneInput(data: bytes) -> None:
    for each in (data, _SIGNATURE + data[:24].ljust(8, b"\0") + data[24:]):
        try:
            found = records(each)
        except NotReadable:
            continue
        assert len(found) <= 64 * len(each) + 64
    # `records` turns all of these into NotReadable.
    with contextlib.suppress(NotReadable, IndexError, Malformed):
        assert len(_unsnappy(data)) <= 64 * len(data)


def main() -> None:
    atheris.Setup(sys.argv, TestOneInput)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
