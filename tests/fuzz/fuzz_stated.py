"""What CPU executables state: as protocol buffers merge their fields, or DamagedBlob."""

import sys

import atheris
from support import index_fuzz
from support.mutators import mutate_protobuf

with atheris.instrument_imports(include=["aotbuild"]):
    from aotbuild.errors import DamagedBlob
    from aotbuild.format import protobuf
    from aotbuild.runtime import stated

RECORD = index_fuzz.RECORDS[0]


def parts(data: bytes, number: int) -> list[bytes]:
    return [f.message for f in protobuf.fields(data) if (f.number, f.whole[0] & 7) == (number, 2)]


def merged(data: bytes, *path: int) -> bytes:
    for number in path:
        data = b"".join(parts(data, number))
    return data


def shape(data: bytes) -> stated.Shape:
    sizes = protobuf.changed(data, lambda f: b"" if f.whole[0] & 7 in (1, 5) else None)
    kinds = [f.value for f in protobuf.fields(data) if f.number == 2 and isinstance(f.value, int)]
    return (kinds or [0])[-1], tuple(protobuf.numbers_of(sizes, 3))


def shapes(found: list[bytes]) -> list[stated.Shape]:
    return [each for each in map(shape, found) if each[0] not in (13, 17)]


def number_in(data: bytes, number: int) -> int:
    found = [f.value for f in protobuf.fields(data) if f.number == number]
    return ([0] + [value for value in found if isinstance(value, int)])[-1]


def TestOneInput(data: bytes) -> None:
    try:
        found = stated.read_stated(RECORD, b"\0" + data)
    except DamagedBlob:
        return
    assert found is not None
    module = merged(data, 1, 1, 1)
    program = merged(module, 4)
    result = merged(program, 2)
    assert found.inputs == shapes(parts(program, 1))
    assert found.outputs == shapes(parts(result, 4) or [result])
    donated = {
        number_in(entry, inside)
        for number, inside in ((8, 2), (18, 1))
        for part in parts(module, number)
        for entry in parts(part, 1)
    }
    taken = parts(program, 1)
    assert found.donated == [len(shapes(taken[:number])) for number in sorted(donated)]
    try:
        called = [
            name
            for computation in parts(module, 3)
            for instruction in parts(computation, 2)
            for name in parts(instruction, 28)
        ]
    except protobuf.Malformed:  # XLA refuses it; what calls nothing is not read
        return
    assert bool(found.python) == any(name.startswith(b"xla_ffi_python_") for name in called)
    assert bool(found.lapack) == any(name.startswith(b"lapack_") for name in called)


def main() -> None:
    atheris.Setup(sys.argv, TestOneInput, custom_mutator=mutate_protobuf)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
