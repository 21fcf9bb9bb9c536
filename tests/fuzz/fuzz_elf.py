"""Objects in CPU executables: their code is found and decoded, or TraceRefused."""

import sys

import atheris

with atheris.instrument_imports(include=["aotbuild"]):
    from aotbuild.errors import TraceRefused
    from aotbuild.platforms.cpu.checks import level_of
    from aotbuild.platforms.cpu.instructions import code_sections, features_beyond

LEVEL = level_of("x86-64-v3")


def TestOneInput(data: bytes) -> None:
    assert sum(map(len, code_sections(data))) <= len(data) * 64
    for exact in (False, True):
        try:
            features_beyond(LEVEL, data, exact=exact)
        except TraceRefused as err:
            str(err).encode()


def main() -> None:
    atheris.Setup(sys.argv, TestOneInput)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
