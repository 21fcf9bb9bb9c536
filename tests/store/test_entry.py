"""The file of an entry: its bytes, and every way in which a file is not the one asked for."""

from __future__ import annotations

import pytest

from aotbuild.format.canonical import sha256_hex
from aotbuild.store.entry import DamagedEntry, Entry, check_entry, read_entry, write_entry
from aotbuild.store.keys import key_of

KEY, OTHER = key_of({"a": 1}), key_of({"a": 2})
ENTRY = Entry({"flops": 2.0}, b"\x00code\n\xff")
RAW = write_entry(KEY, ENTRY)


def test_the_bytes_of_an_entry() -> None:
    head, _, body = RAW.partition(b"\n\n")
    assert head.decode().splitlines() == [
        "aotbuild-entry 2",
        f"key {KEY}",
        "body 21 a5a4216f041d5fa641c29b439303b43a892b615eacd804deba7fff21f1aaeb24",
    ]
    assert body == b'{"flops":2.0}\n\x00code\n\xff'


@pytest.mark.parametrize("entry", [ENTRY, Entry({}, b""), Entry({"a": "\n\n"}, b"\n\n")])
def test_round_trip(entry: Entry) -> None:
    assert read_entry(write_entry(KEY, entry), KEY) == entry


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"", "it does not begin as an entry of the store does"),
        (b"<html>", "it does not begin as an entry of the store does"),
        (RAW.replace(b"entry 2", b"entry 3"), "it does not begin as an entry of the store does"),
        (RAW[:100], "it does not begin as an entry of the store does"),
        (RAW[:-1], f"expected {len(RAW)} bytes, found {len(RAW) - 1}"),
        (RAW + b"x", f"expected {len(RAW)} bytes, found {len(RAW) + 1}"),
        (RAW[:-1] + b"x", "its SHA-256 differs"),
        (write_entry(OTHER, ENTRY), f"it is the entry {OTHER}"),
    ],
)
def test_what_is_not_the_entry(raw: bytes, reason: str) -> None:
    with pytest.raises(DamagedEntry) as caught:
        read_entry(raw, KEY)
    assert str(caught.value).startswith(reason)


@pytest.mark.parametrize("facts", [b"[1]\n", b"{}", b"{\n", b"[" * 100_000 + b"\n"])
def test_facts_are_an_object(facts: bytes) -> None:
    head = f"aotbuild-entry 2\nkey {KEY}\nbody {len(facts)} {sha256_hex(facts)}\n\n"
    with pytest.raises(DamagedEntry, match="its facts are not"):
        read_entry(head.encode() + facts, KEY)


def test_every_changed_byte_is_seen() -> None:
    for at in range(len(RAW)):
        changed = bytearray(RAW)
        changed[at] ^= 1
        with pytest.raises(DamagedEntry):
            check_entry(bytes(changed), KEY)
