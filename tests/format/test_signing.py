"""Signature files: their exact bytes, what is signed, and what is refused."""

from __future__ import annotations

import base64
import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.records import HEADER, make_function, make_record, small

from aotbuild.errors import InvalidIndex, UntrustedPackage
from aotbuild.format.canonical import sha256_hex
from aotbuild.format.index import Index, write_index
from aotbuild.format.signing import (
    MAX_SEALS_BYTES,
    Seal,
    key_id,
    read_seals,
    sealed_message,
    write_seals,
)

FIRST = Seal("0" * 64, bytes(range(64)))
SECOND = Seal("f" * 64, b"\xff" * 64)
SEALS = st.builds(
    Seal, st.binary(min_size=32, max_size=32).map(bytes.hex), st.binary(min_size=64, max_size=64)
)


def file_of(*lines: str) -> bytes:
    return "".join(f"{line}\n" for line in ("aotbuild-signatures 1", *lines)).encode()


def test_exact_bytes() -> None:
    value = base64.b64encode(bytes(range(64))).decode()
    assert write_seals([FIRST]) == f"aotbuild-signatures 1\ned25519 {'0' * 64} {value}\n".encode()
    assert key_id(b"\0" * 32) == sha256_hex(b"\0" * 32)


@given(st.lists(SEALS, min_size=1, max_size=5, unique_by=lambda seal: seal.key_id))
def test_round_trip(seals: list[Seal]) -> None:
    assert read_seals(write_seals(seals), "here") == tuple(sorted(seals, key=str))
    assert write_seals(seals[::-1]) == write_seals(seals)


@pytest.mark.parametrize(
    ("data", "expected", "found"),
    [
        (b"", "a first line 'aotbuild-signatures 1'", "''"),
        (b"aotbuild-signatures 1", "a newline at the end", "none"),
        (b"aotbuild-signatures 1\n", "a line for each key", "no line"),
        (b"aotbuild-signatures 2\n", "a first line", "'aotbuild-signatures 2'"),
        (file_of(str(FIRST)).replace(b"\n", b"\r\n"), "a first line", "1\\r'"),
        (file_of(f"{FIRST}\r"), "in line 2", "\\r'"),
        (file_of(str(FIRST), ""), "in line 3", "''"),
        (file_of("", str(FIRST)), "in line 2", "''"),
        (file_of(f" {FIRST}"), "in line 2", "' ed25519"),
        (file_of(f"{FIRST} comment"), "in line 2", "'ed25519"),
        (file_of(str(FIRST).replace("ed25519", "rsa")), "in line 2", "'rsa"),
        (file_of(str(SECOND).replace("f" * 64, "F" * 64)), "in line 2", "FFF"),
        (file_of(str(FIRST)[:-3]), "in line 2", "'ed25519"),
        (file_of(str(FIRST).replace("Pw==", "Px==")), "in line 2", "'ed25519"),
        (file_of(str(FIRST))[:-1], "a newline at the end", "none"),
        (file_of(str(SECOND), str(FIRST)), "sorted", "in another order, or twice"),
        (file_of(str(FIRST), str(FIRST)), "sorted", "in another order, or twice"),
        (b"\xef\xbb\xbf" + file_of(str(FIRST)), "ASCII text", "byte 0xef"),
        (file_of(str(FIRST)) * 10_000, f"at most {MAX_SEALS_BYTES} bytes", "more"),
    ],
)
def test_anything_else_is_refused(data: bytes, expected: str, found: str) -> None:
    with pytest.raises(UntrustedPackage) as caught:
        read_seals(data, "here")
    assert expected in caught.value.expected
    assert found in caught.value.found
    assert str(caught.value).startswith("here: the package is not trusted\n")


@settings(max_examples=1000, deadline=None)
@given(st.binary(max_size=300))
def test_arbitrary_bytes_end_well(data: bytes) -> None:
    for text in (data, b"aotbuild-signatures 1\n" + data, file_of(str(FIRST)) + data):
        with contextlib.suppress(UntrustedPackage):
            assert write_seals(read_seals(text, "here")) == text


@settings(max_examples=500, deadline=None)
@given(st.integers(0, len(file_of(str(FIRST), str(SECOND))) - 1), st.binary(max_size=3))
def test_edited_files_end_well(place: int, new: bytes) -> None:
    data = file_of(str(FIRST), str(SECOND))
    edited = data[:place] + new + data[place + 1 :]
    with contextlib.suppress(UntrustedPackage):
        assert write_seals(read_seals(edited, "here")) == edited


class TestWhatIsSigned:
    def test_exact_bytes(self) -> None:
        lines = small().split(b"\n")
        expected = b"aotbuild index signature 1\naotbuild-index 1\n" + lines[1] + b"\n"
        assert sealed_message(small()) == expected

    @pytest.mark.parametrize(
        "index",
        [
            write_index({**HEADER, "package": "q"}, [make_function()], [make_record()]),
            write_index(HEADER, [make_function(), make_function("g")], [make_record()]),
            write_index(HEADER, [make_function()], [make_record(batch=2)]),
            write_index(HEADER, [make_function()], []),
        ],
    )
    def test_a_change_with_fresh_digests_is_seen(self, index: bytes) -> None:
        signed = write_index(HEADER, [make_function()], [make_record()])
        assert sealed_message(index) != sealed_message(signed)

    def test_any_other_change_is_refused_when_it_is_read(self) -> None:
        data = small()
        start = data.index(b"{")
        for place in range(start, len(data)):
            edited = data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]
            assert sealed_message(edited) == sealed_message(data)
            with pytest.raises(InvalidIndex):
                read_everything(edited)

    @given(st.binary(max_size=200))
    def test_it_never_fails(self, data: bytes) -> None:
        assert sealed_message(data).startswith(b"aotbuild index signature 1\n")


def read_everything(data: bytes) -> None:
    index = Index.open(data, "index")
    for function in list(index.functions()):
        index.records(function.name)


def test_the_check_can_fail() -> None:
    read_everything(small())
