"""Counters of production: `Library.stats()` as JSON is read, or InvalidRecording."""

import sys

import atheris
from support.fuzz_files import as_file
from support.mutators import mutate_json

with atheris.instrument_imports(include=["aotbuild"]):
    from aotbuild.coverage.counters import _parsed, is_counters, read_counters
    from aotbuild.errors import InvalidRecording


def TestOneInput(data: bytes) -> None:
    path = as_file(data, "stats.json")
    is_counters(path)
    try:
        found = read_counters(path, "pkg")
    except InvalidRecording as err:
        str(err).encode("utf-8", "backslashreplace")
        return
    assert found.refused >= 0
    for counts in found.calls.values():
        for text, count in counts.items():
            assert count >= 0
            avals, rest = _parsed(text)
            assert len(avals) + len(rest) <= len(text)


def main() -> None:
    atheris.Setup(sys.argv, TestOneInput, custom_mutator=mutate_json)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
