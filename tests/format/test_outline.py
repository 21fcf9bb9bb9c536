"""Outlines: as the records' own signatures, whatever is inside them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from support.records import HEADER, make_function, make_record

from aotbuild.format.canonical import canonical_json
from aotbuild.format.index import Index, write_index
from aotbuild.format.layout import JoinedIndex
from aotbuild.format.record import Record
from aotbuild.format.signature import outline
from aotbuild.format.target import Target

NASTY = (
    '"signature":{"leaves":["f32[9]"],"statics":[],"tree":["tuple"]},"target":"',
    '"],"statics":',
    '],"statics":',
    '\\"signature\\":{',
)


def outlines_of(index: Index) -> list[tuple[str, list[str], bytes]]:
    return list(index.outlines("f"))


def expected(record: Record) -> tuple[str, list[str], bytes]:
    signature = record.signature
    rest = canonical_json({k: v for k, v in signature.to_json().items() if k != "leaves"})
    leaves = [str(aval) for aval in signature.leaves]
    return signature.key(), leaves, rest.removeprefix(b'{"statics":').removesuffix(b"}")


def with_static(record: Record, value: Any) -> Record:
    statics = (("causal", value), ("k", 3))
    return replace(record, signature=replace(record.signature, statics=statics))


@pytest.mark.parametrize("text", NASTY)
def test_texts_that_look_like_a_signature(text: str) -> None:
    record = with_static(make_record(), text)
    record = replace(record, provenance={"label": text, "signature": {"leaves": []}})
    index = Index.open(write_index(HEADER, [make_function()], [record]), "index")
    assert outlines_of(index) == [expected(record)]


def test_every_signature_once_and_no_other_function() -> None:
    records = [make_record(batch=batch) for batch in range(1, 9)]
    other = replace(records[0], target=Target("cpu", "x86-64-v4", 2))
    functions = [make_function("f"), make_function("g")]
    data = write_index(HEADER, functions, [*records, other, make_record("g")])
    found = outlines_of(Index.open(data, "index"))
    assert sorted(found) == sorted(map(expected, records))
    assert list(Index.open(data, "index").outlines("h")) == []


def test_those_of_companions_are_added() -> None:
    first, second = make_record(batch=1), make_record(batch=2)
    base = Index.open(write_index(HEADER, [make_function()], [first]), "base")
    other = Index.open(write_index(HEADER, [make_function()], [first, second]), "other")
    found = outlines_of(JoinedIndex.of(base, other))
    assert sorted(found) == sorted(map(expected, [first, second]))


def test_an_object_without_a_signature_has_none() -> None:
    assert outline(canonical_json(make_function().to_json())) is None
