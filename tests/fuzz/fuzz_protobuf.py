"""Serialized executables: fields, thunks and modules are read and rewritten, or Malformed."""

import contextlib
import sys

import atheris
from support.mutators import mutate_protobuf

with atheris.instrument_imports(include=["aotbuild"]):
    from aotbuild.format import protobuf
    from aotbuild.format.protobuf import Malformed
    from aotbuild.platforms.cuda import executables as cuda_bytes
    from aotbuild.worker.thunk_rewrite import canonical, grouping, program

JAXLIB = "0.10.2"


def TestOneInput(data: bytes) -> None:
    try:
        found = list(protobuf.fields(data))
        assert b"".join(field.whole for field in found) == data
        for field in found[:4]:
            protobuf.numbers_of(data, field.number)
            protobuf.messages_of(data, field.number)
    except Malformed:
        pass
    grouped = grouping.group_thunks(data, JAXLIB)
    shrunk = program.shrink_program(grouped, JAXLIB)
    assert shrunk is None or len(shrunk) < len(grouped)
    once = canonical.canonical(data, JAXLIB)
    assert canonical.canonical(once, JAXLIB) == once
    try:
        kept = program.fusions(data)
        program.shrink_program(data, JAXLIB, kept[:1])
    except Malformed:
        pass
    with contextlib.suppress(cuda_bytes.NotReadable):
        cuda_bytes.readable(data)


def main() -> None:
    atheris.Setup(sys.argv, TestOneInput, custom_mutator=mutate_protobuf)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
