"""Headers of tensors: read as the safetensors library reads them, or ValueError."""

import struct
import sys

import atheris
import safetensors

with atheris.instrument_imports(include=["aotbuild"]):
    from aotbuild.format.tensors import begin_of, read_tensors, write_tensors


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
        return
    for tensor in found.values():
        assert 8 <= tensor.begin <= tensor.end <= len(data)
    # Whatever is read here must be the same to the library that everybody else reads with.
    theirs = dict(safetensors.deserialize(data))
    assert theirs.keys() == found.keys()
    for name, tensor in found.items():
        assert tuple(theirs[name]["shape"]) == tensor.shape
        assert bytes(theirs[name]["data"]) == data[tensor.begin : tensor.end]
    if found:
        described = {n: (t.dtype, t.shape, data[t.begin : t.end]) for n, t in found.items()}
        again = read_tensors(write_tensors(described))
        assert {n: (t.dtype, t.shape) for n, t in again.items()} == {
            n: (t.dtype, t.shape) for n, t in found.items()
        }


def main() -> None:
    atheris.Setup(sys.argv, TestOneInput)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
