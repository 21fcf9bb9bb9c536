"""RECORD: compared with the files of a wheel, given one row more, and searched for an owner."""

import csv
import io
import sys
import zipfile
from importlib.metadata import Distribution
from pathlib import Path
from typing import Any

import atheris
from support.mutators import mutate_words

with atheris.instrument_imports(include=["aotbuild"]):
    from aotbuild.runtime.distribution import _lists, _stated
    from aotbuild.verify.archive import record_hash, record_problems
    from aotbuild.verify.signing import with_row

RECORD = "p-1.dist-info/RECORD"
DATA = b"signature"


class Stated(Distribution):
    """A distribution whose every file is one text."""

    def __init__(self, text: str) -> None:
        self.text = text

    def read_text(self, filename: str) -> str:
        return self.text

    def locate_file(self, path: Any) -> Path:
        return Path(path)


def TestOneInput(data: bytes) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("p/a.py", b"a")
        archive.writestr(RECORD, data)
    with zipfile.ZipFile(packed) as archive:
        problems = list(record_problems(archive))
    "".join(problems).encode("utf-8", "backslashreplace")
    text = data.decode("utf-8", "replace")
    _lists(Stated(text), "p/_aot/index")
    _stated(Stated(text))
    if problems:  # then `sign` changes nothing
        return
    again = with_row(text, RECORD, "p/_aot/index.sig", DATA)
    rows = [row for row in csv.reader(again.splitlines()) if row[0] == "p/_aot/index.sig"]
    assert rows == [["p/_aot/index.sig", record_hash(DATA), str(len(DATA))]]


def main() -> None:
    row = f"p/a.py,{record_hash(b'a')},1"
    mutate = mutate_words(row, f"{RECORD},,", '"a,b",c,', "sha256=", ",", '"', "\r")
    atheris.Setup(sys.argv, TestOneInput, custom_mutator=mutate)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
