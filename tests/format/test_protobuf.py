"""Protocol buffers without their schema: fields are read, changed and written by number."""

from __future__ import annotations

import pytest

from aotbuild.format.protobuf import Malformed, bytes_of, fields, messages_of, number_of, numbers_of

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
