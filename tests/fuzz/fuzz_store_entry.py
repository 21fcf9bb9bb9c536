"""Entries of the store: head, facts, times and splits; or DamagedEntry."""

import sys

import atheris
from support.fuzz_files import as_file
from support.mutators import mutate_json_lines

with atheris.instrument_imports(include=["aotbuild"]):
    from aotbuild.format.canonical import sha256_hex
    from aotbuild.store import entry as entries
    from aotbuild.store import kinds, times
    from aotbuild.store.entry import DamagedEntry, read_entry, read_head, with_seals, write_entry

KEY = "0" * 64


def with_right_digest(data: bytes) -> bytes:
    """Return an entry whose head fits its body: whoever forges one computes it, too."""
    _, _, body = data.partition(b"\n\n")
    head = f"aotbuild-entry 2\nkey {KEY}\nbody {len(body)} {sha256_hex(body)}\n\n"
    return head.encode() + body


def TestOneInput(data: bytes) -> None:
    for raw in {data, with_right_digest(data)}:
        kinds.kind_of(as_file(raw, "entry"))
        try:
            head = read_head(raw, KEY)
            assert read_head(with_seals(raw, KEY, head.seals), KEY).seals == head.seals
            found = read_entry(raw, KEY)
            entries.is_local(raw, head)
        except DamagedEntry as err:
            str(err).encode()
            continue
        use(found)


def use(found: entries.Entry) -> None:
    assert read_entry(write_entry(KEY, found), KEY) == found
    for parse in (times._seconds, lambda each: times._numbers(each, 3, 2)):
        try:
            found.parsed(parse)
        except DamagedEntry as err:
            str(err).encode("utf-8", "backslashreplace")


def main() -> None:
    atheris.Setup(sys.argv, TestOneInput, custom_mutator=mutate_json_lines)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
