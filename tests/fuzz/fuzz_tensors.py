"""Headers of tensors: read as the safetensors library reads them, or ValueError."""

import struct
import sys

import atheris
import safetensors

with atheris.instrument_imports(include=["aotbuild"]):
    from aotbuild.format.tensors import (
        DTYPES,
        NEWER_DTYPES,
        begin_of,
        find_tensors,
        read_tensors,
        write_header,
    )


def TestOneInput(data: bytes) -> None:
    # A length that fits lets the header be read: the fuzzer changes its end all the time.
    with_length = data
    if len(data) >= 8 and data[7:8] != b"\xff":
        end = data.rfind(b"}", 8)
        with_length = struct.pack("<Q", max(0, end + 1 - 8)) + data[8:] if end > 0 else data
    for each in {data, with_length}:
        check(each)


def check(data: bytes) -> None:
    begin_of(data, "constant", max(0, len(data) - 64))
    try:
        found = read_tensors(data)
    except ValueError:
        found = None
    try:
        every = find_tensors(lambda b, e: data[b:e], len(data), {**DTYPES, **NEWER_DTYPES})
    except ValueError:
        assert found is None
        return
    assert found is None or found == every
    for tensor in every.values():
        assert 8 <= tensor.begin <= tensor.end <= len(data)
    if found is not None:
        # Whatever is read here must be the same to the library that everybody else reads with.
        theirs = dict(safetensors.deserialize(data))
        assert theirs.keys() == found.keys()
        for name, tensor in found.items():
            assert tuple(theirs[name]["shape"]) == tensor.shape
            assert bytes(theirs[name]["data"]) == data[tensor.begin : tensor.end]
    if found:
        head, _order = write_header({n: (t.dtype, t.shape) for n, t in found.items()})
        size = sum(t.end - t.begin for t in found.values())
        again = read_tensors(head + b"\0" * size)
        assert {n: (t.dtype, t.shape) for n, t in again.items()} == {
            n: (t.dtype, t.shape) for n, t in found.items()
        }


def main() -> None:
    atheris.Setup(sys.argv, TestOneInput)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
