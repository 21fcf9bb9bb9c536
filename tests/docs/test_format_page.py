"""The page on the format has the keys of records, and no others."""

from __future__ import annotations

import re
from dataclasses import fields

import pytest
from support.doc_pages import DOCS, text_of

from aotbuild.format.record import Calling, Record, Requirements

PAGE = text_of(DOCS / "reference" / "format.md")


@pytest.mark.parametrize(
    ("kind", "head"),
    [
        (Record, "A record's object has all of these keys:\n\n| key | value |"),
        (Requirements, "| key of `requires` | value |"),
        (Calling, "| key of `calling` | value |"),
    ],
)
def test_keys(kind: type, head: str) -> None:
    _, _, *rows = PAGE.partition(head)[2].partition("\n\n")[0].splitlines()
    shown = {key for row in rows for key in re.findall(r"`(\w+)`", row.split("|")[1])}
    known = {field.name for field in fields(kind)}
    assert shown == known
