"""Records: an object of an index is a record that is written as it was read, or ValueError."""

import sys

import atheris
from support.mutators import mutate_json

with atheris.instrument_imports(include=["aotbuild"]):
    from support import index_fuzz

    from aotbuild.errors import AotbuildError
    from aotbuild.format.canonical import canonical_json, read_canonical
    from aotbuild.format.record_json import record_from_json, record_to_json


def TestOneInput(data: bytes) -> None:
    try:
        value = read_canonical(data)
        record = record_from_json(value)
    except ValueError as err:
        str(err).encode("utf-8", "backslashreplace")
        return
    written = record_to_json(record)
    assert record_from_json(read_canonical(canonical_json(written))) == record
    # The way of `load` and of reports, with digests that fit.
    try:
        index_fuzz.use(index_fuzz.with_fresh_digests(index_fuzz.objects_of(written)))
    except AotbuildError as err:
        str(err).encode()


def main() -> None:
    atheris.Setup(sys.argv, TestOneInput, custom_mutator=mutate_json)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
