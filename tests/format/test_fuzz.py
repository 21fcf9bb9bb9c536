"""The index reader, and what reports say of what it read, meet anything and end as documented."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.fuzz import VALUES, fuzz, mutations
from support.index_fuzz import (
    FUNCTION,
    GROUP,
    HEAD_AT,
    INDEX,
    OTHER,
    RECORDS,
    ZEROS,
    must_end_well,
    objects_of,
    use,
    vouched,
    with_fresh_digests,
)
from support.records import HEADER

from aotbuild.errors import AotbuildError
from aotbuild.format.canonical import canonical_json
from aotbuild.format.index import Index
from aotbuild.format.record_json import record_to_json

pytestmark = [pytest.mark.fuzz, pytest.mark.any_jax]


def test_the_valid_ones_are_read() -> None:
    use(INDEX)
    use(OTHER)
    assert sorted(map(str, Index.open(INDEX, "index").records("f"))) == sorted(map(str, RECORDS))


# --- digests that fit -----------------------------------------------------------------------------


@fuzz(1200)
@given(st.sampled_from(RECORDS).flatmap(lambda record: mutations(record_to_json(record))))
def test_edited_records(record: Any) -> None:
    must_end_well(with_fresh_digests(objects_of(record)))


@fuzz(700)
@given(st.integers(0, len(RECORDS) - 1), st.sampled_from(["analysis", "provenance"]), VALUES)
def test_what_nothing_is_decided_on(number: int, key: str, new: Any) -> None:
    record = record_to_json(RECORDS[number])
    record[key] = {**record[key], "flops": new, "label": new, "symbolic_leaves": new, "x": new}
    must_end_well(with_fresh_digests(objects_of(record)))


@fuzz(1000)
@given(mutations(FUNCTION))
def test_edited_functions(function: Any) -> None:
    name = function.get("name") if isinstance(function, dict) else "f"
    record = {**record_to_json(RECORDS[0]), "function": name}
    must_end_well(with_fresh_digests(objects_of(record, function)))


@fuzz(1000)
@given(mutations({**HEADER, "jax": "0.10.2", "jaxlib": "0.10.2", "x": {}}))
def test_edited_headers(header: Any) -> None:
    must_end_well(with_fresh_digests(objects_of(record_to_json(RECORDS[0])), header))


@fuzz(500)
@given(st.sampled_from(["objects", "rows"]), VALUES)
def test_edited_counts(name: str, new: Any) -> None:
    must_end_well(with_fresh_digests([], {**HEADER, name: new}))


@fuzz(1000)
@given(st.binary(max_size=200), st.sampled_from([ZEROS, RECORDS[0].signature.key()]))
def test_objects_that_are_not_json(data: bytes, key: str) -> None:
    must_end_well(with_fresh_digests([(GROUP + key, data)]))


@fuzz(1000)
@given(st.binary(min_size=1, max_size=200))
def test_rows_that_are_no_rows(rows: bytes) -> None:
    padded = (rows * 136)[:135] + b"\n"
    head = canonical_json({**HEADER, "objects": 0, "rows": 1}) + b"\n"
    must_end_well(vouched(head + padded))


# --- bytes ----------------------------------------------------------------------------------------


@fuzz(1500)
@given(st.lists(st.integers(0, 8 * len(INDEX) - 1), min_size=1, max_size=4, unique=True))
def test_flipped_bits_are_never_accepted(bits: list[int]) -> None:
    data = bytearray(INDEX)
    for bit in bits:
        data[bit // 8] ^= 1 << bit % 8
    with pytest.raises(AotbuildError):
        use(bytes(data))


@fuzz(500)
@given(st.integers(0, len(INDEX) - 1), st.binary(max_size=20))
def test_truncated_and_continued(end: int, tail: bytes) -> None:
    must_end_well(INDEX[:end] + tail)


SPLICES = st.lists(
    st.tuples(
        *[st.integers(0, len(INDEX))] * 2,
        st.sampled_from([0, 1, 136, 300]),
        st.booleans(),
    ),
    min_size=1,
    max_size=3,
)


def spliced(data: bytes, edits: list[tuple[int, int, int, bool]]) -> bytes:
    """Copy pieces of one index, or of another, over others or between them."""
    for to, source, length, insert in edits:
        piece = (OTHER if source % 2 else INDEX)[source : source + length]
        data = data[:to] + piece + data[to if insert else to + length :]
    return data


@fuzz(1000)
@given(SPLICES)
def test_spliced(edits: list[tuple[int, int, int, bool]]) -> None:
    must_end_well(spliced(INDEX, edits))


@fuzz(900)
@given(SPLICES, st.booleans())
def test_spliced_rows_with_a_fresh_digest(
    edits: list[tuple[int, int, int, bool]], whole_rows: bool
) -> None:
    index = Index.open(INDEX, "index")
    end = HEAD_AT + INDEX[HEAD_AT:].index(b"\n") + 1
    rows, body = INDEX[end : index._objects], INDEX[index._objects :]
    if whole_rows:
        edits = [(to // 136 * 136, source, 136, insert) for to, source, _, insert in edits]
    bounded = [(to % len(rows), source, length, insert) for to, source, length, insert in edits]
    changed = spliced(rows, bounded)
    changed = (changed + rows)[: max(136, len(changed) // 136 * 136)]
    head = canonical_json({**HEADER, "objects": len(body), "rows": len(changed) // 136}) + b"\n"
    must_end_well(vouched(head + changed) + body)
