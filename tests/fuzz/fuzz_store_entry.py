"""Entries of the store: head and facts; or DamagedEntry."""

import sys

import atheris
from support.mutators import mutate_json_lines

with atheris.instrument_imports(include=["aotbuild"]):
    from aotbuild.format.canonical import sha256_hex
    from aotbuild.store.entry import DamagedEntry, read_entry, write_entry

KEY = "0" * 64


def with_right_digest(data: bytes) -> bytes:
    """Return an entry whose head fits its body: whoever forges one computes it, too."""
    _, _, body = data.partition(b"\n\n")
    head = f"aotbuild-entry 2\nkey {KEY}\nbody {len(body)} {sha256_hex(body)}\n\n"
    return head.encode() + body


def TestOneInput(data: bytes) -> None:
    for raw in {data, with_right_digest(data)}:
        try:
            found = read_entry(raw, KEY)
        except DamagedEntry as err:
            str(err).encode()
            continue
        assert read_entry(write_entry(KEY, found), KEY) == found


def main() -> None:
    atheris.Setup(sys.argv, TestOneInput, custom_mutator=mutate_json_lines)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
