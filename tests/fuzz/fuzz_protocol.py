"""Lines between a build and its workers: a message that is written as it was read, or an error."""

import sys

import atheris
from support.mutators import mutate_json

with atheris.instrument_imports(include=["aotbuild"]):
    from aotbuild.build import protocol
    from aotbuild.build.protocol import NotAMessage, WrongVersion


def TestOneInput(data: bytes) -> None:
    line = data.decode("utf-8", "replace")
    for read in (protocol.read_request, protocol.read_reply):
        try:
            message = read(line)
        except (NotAMessage, WrongVersion) as err:
            str(err).encode("utf-8", "backslashreplace")
            continue
        assert read(protocol.to_line(message)) == message


def main() -> None:
    atheris.Setup(sys.argv, TestOneInput, custom_mutator=mutate_json)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
