"""Entries of direct mode: what a job read, its marks and its messages, or a miss."""

import json
import sys

import atheris
from support.mutators import mutate_json

with atheris.instrument_imports(include=["aotbuild"]):
    from support.fuzz_files import as_file

    from aotbuild.build.direct import mode
    from aotbuild.build.protocol import json_of, reply_of
    from aotbuild.store.file_digests import _read as read_digests
    from aotbuild.store.read_set import ReadSet


def TestOneInput(data: bytes) -> None:
    found = read_digests(as_file(data, "digests.json"))
    assert all(isinstance(part, str) for pair in found.items() for part in pair)
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return
    try:
        names = ReadSet.from_json(value)
    except (ValueError, TypeError, AttributeError):  # as `direct.entries` has it
        pass
    else:
        assert ReadSet.from_json(json.loads(json.dumps(names.to_json()))) == names
    for each in value if isinstance(value, list) else [value]:
        try:
            message = reply_of(each)
        except ValueError:
            continue
        assert reply_of(json_of(message)) == message
        list(mode._blobs(message))


def main() -> None:
    atheris.Setup(sys.argv, TestOneInput, custom_mutator=mutate_json)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
