"""Recordings: added up, and written again as the same ones, or InvalidCallLog."""

import sys

import atheris
from support.fuzz_files import as_file
from support.mutators import mutate_json_lines

with atheris.instrument_imports(include=["aotbuild"]):
    from aotbuild.errors import InvalidCallLog
    from aotbuild.record import recording as lines
    from aotbuild.record.recording import read_recording


def TestOneInput(data: bytes) -> None:
    try:
        found = read_recording(as_file(data, "calls.rec"))
    except InvalidCallLog as err:
        str(err).encode("utf-8", "backslashreplace")
        return
    written = [lines.first_line(), *map(lines.program_line, found.programs.values())]
    written += map(lines.function_line, found.functions.values())
    written += map(lines.call_line, found.calls.values())
    written += (lines.tally_line(key, tally) for key, tally in found.tallies.items())
    again = read_recording(as_file(b"".join(written), "again.rec"))
    assert again == found, "a recording is written as another one"
    found.tally(found.calls)


def main() -> None:
    atheris.Setup(sys.argv, TestOneInput, custom_mutator=mutate_json_lines)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
