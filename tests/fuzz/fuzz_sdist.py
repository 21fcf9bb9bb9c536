"""Source distributions: what `release-check` compares of one, or the errors that it collects."""

import gzip
import sys

import atheris
from support.fuzz_files import as_file

with atheris.instrument_imports(include=["aotbuild"]):
    from aotbuild.verify.release import read_release


def TestOneInput(data: bytes) -> None:
    # The tar file is what is fuzzed; raw bytes are tried as the compressed file, too.
    for each in (gzip.compress(data, 0), data):
        found = read_release([as_file(each, "p-1.tar.gz")])
        assert len(found.sdists) + len(found.unreadable) == 1
        "".join(found.unreadable.values()).encode("utf-8", "backslashreplace")


def main() -> None:
    atheris.Setup(sys.argv, TestOneInput)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
