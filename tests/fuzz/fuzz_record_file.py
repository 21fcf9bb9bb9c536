"""RECORD: compared with the files of a wheel, and searched for an owner."""

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

RECORD = "p-1.dist-info/RECORD"


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


def main() -> None:
    row = f"p/a.py,{record_hash(b'a')},1"
    mutate = mutate_words(row, f"{RECORD},,", '"a,b",c,', "sha256=", ",", '"', "\r")
    atheris.Setup(sys.argv, TestOneInput, custom_mutator=mutate)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
