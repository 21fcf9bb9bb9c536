"""Protocol buffers without their schema: fields are read, changed and written by number."""

from __future__ import annotations

import pytest

from aotbuild.format.protobuf import (
    Malformed,
    bytes_field,
    bytes_of,
    changed,
    fields,
    messages_of,
    number_field,
    number_of,
    numbers_of,
    replaced,
)

# 1: 150, 2: "text", 3: 1 and 256, packed.
MESSAGE = b"\x08\x96\x01" + b"\x12\x04text" + b"\x1a\x03\x01\x80\x02"


def test_fields_are_read() -> None:
    assert [field.number for field in fields(MESSAGE)] == [1, 2, 3]
    assert b"".join(field.whole for field in fields(MESSAGE)) == MESSAGE
    assert number_of(MESSAGE, 1) == 150
    assert bytes_of(MESSAGE, 2) == b"text"
    assert messages_of(MESSAGE, 2) == [b"text"]
    assert numbers_of(MESSAGE, 3) == [1, 256]
    assert numbers_of(b"\x18\x01\x18\x80\x02", 3) == [1, 256]


def test_what_is_not_there_has_the_default() -> None:
    assert number_of(MESSAGE, 9) == 0
    assert bytes_of(MESSAGE, 9) == b""
    assert messages_of(MESSAGE, 9) == numbers_of(MESSAGE, 9) == []


def test_the_last_of_several_counts() -> None:
    assert number_of(b"\x08\x01\x08\x02", 1) == 2


@pytest.mark.parametrize(
    ("number", "value", "written"),
    [(1, 0, b""), (1, 150, b"\x08\x96\x01"), (16, 1, b"\x80\x01\x01")],
)
def test_numbers_are_written(number: int, value: int, written: bytes) -> None:
    assert number_field(number, value) == written
    assert number_of(written, number) == value


def test_fields_are_changed() -> None:
    assert changed(MESSAGE, lambda field: None) == MESSAGE
    without = changed(MESSAGE, lambda field: b"" if field.number == 2 else None)
    assert messages_of(without, 2) == []
    assert numbers_of(without, 3) == [1, 256]


class TestReplaced:
    def test_the_rest_stays(self) -> None:
        outer = bytes_field(7, MESSAGE) + number_field(8, 5)
        there = replaced(outer, [7, 2], b"other")
        assert there == bytes_field(7, replaced(MESSAGE, [2], b"other")) + number_field(8, 5)
        assert bytes_of(bytes_of(there, 7), 2) == b"other"

    @pytest.mark.parametrize("message", [b"", MESSAGE * 2], ids=["none", "several"])
    def test_there_must_be_one(self, message: bytes) -> None:
        with pytest.raises(Malformed, match="expected one field 2"):
            replaced(message, [2], b"")


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (b"\x08", "a number that does not end"),
        (b"\xff" * 12, "a number that does not end"),
        (b"\x0a\x05ab", "field 1 goes on behind the end"),
        (b"\x0d\x00", "field 1 goes on behind the end"),
        (b"\x0b", "field 1 is of wire type 3"),
    ],
)
def test_what_is_no_message(message: bytes, text: str) -> None:
    with pytest.raises(Malformed, match=text):
        list(fields(message))


def test_another_type_than_expected() -> None:
    with pytest.raises(Malformed, match="field 2 holds bytes, a number was expected"):
        number_of(MESSAGE, 2)
    with pytest.raises(Malformed, match="field 1 holds a number, bytes were expected"):
        bytes_of(MESSAGE, 1)
