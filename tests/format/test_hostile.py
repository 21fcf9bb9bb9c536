"""What fuzzing once got past the index reader: each is refused as a damaged index."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import jax
import pytest
from support.index_fuzz import (
    FUNCTION,
    HEAD_AT,
    INDEX,
    RECORDS,
    nested,
    objects_of,
    use,
    vouched,
    with_fresh_digests,
)
from support.records import HEADER, make_function, make_record

from aotbuild.errors import AotbuildError, InvalidIndex
from aotbuild.format.canonical import canonical_json, read_canonical
from aotbuild.format.index import Index, write_index
from aotbuild.format.outputs import describe_output
from aotbuild.format.record_json import record_to_json
from aotbuild.format.tree import TreeRefused, describe
from aotbuild.format.values import decode, shown

DIGEST = "ab" * 32


@pytest.mark.parametrize("seed", range(40))
def test_flipped_bits_are_never_accepted(seed: int) -> None:
    data, chance = bytearray(INDEX), random.Random(seed)
    for _ in range(1 + seed % 3):
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    with pytest.raises(AotbuildError):
        use(bytes(data))


def edited(change: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
    record: dict[str, Any] = read_canonical(canonical_json(record_to_json(RECORDS[0])))
    change(record)
    return record


RECORD_EDITS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "infinite static": lambda r: r["signature"]["statics"].append(["z", float("inf")]),
    "half a character": lambda r: r["signature"]["statics"].append(["z", "\ud800"]),
    "half a character in the label": lambda r: r["provenance"].update(label="\ud800"),
    "not a number in what nothing is decided on": lambda r: r["analysis"].update(x=float("nan")),
    "deep static": lambda r: r["signature"]["statics"].append(["z", nested(300)]),
    "deep provenance": lambda r: r["provenance"].update(x=nested(300)),
    "analysis of pairs": lambda r: r.update(analysis=[[1, 2]]),
    "digest in pieces": lambda r: r["blob"].__setitem__(1, list(DIGEST)),
    "negative size": lambda r: r["blob"].__setitem__(2, -5),
    "size as text": lambda r: r["blob"].__setitem__(2, "4"),
    "size above every file": lambda r: r["blob"].__setitem__(2, 1 << 64),
    "half a device": lambda r: r["requires"].update(devices=1.5),
    "x64 as text": lambda r: r["requires"].update(x64="no"),
}


@pytest.mark.parametrize("name", RECORD_EDITS)
def test_record(name: str) -> None:
    data = with_fresh_digests(objects_of(edited(RECORD_EDITS[name])))
    with pytest.raises(InvalidIndex, match="object"):
        use(data)


FUNCTION_EDITS: dict[str, dict[str, Any]] = {
    "name of a static": {"statics": [[{"tuple": []}]]},
    "no name of a static": {"statics": [[None]]},
    "three parts of a static": {"statics": [["k", 1, 2]]},
    "number as a name": {"positional": [1]},
    "text as a list": {"dynamic": "x"},
    "name twice": {"donate": ["x", "x"]},
}


@pytest.mark.parametrize("name", FUNCTION_EDITS)
def test_function(name: str) -> None:
    function = {**FUNCTION, **FUNCTION_EDITS[name]}
    data = with_fresh_digests(objects_of(edited(dict), function))
    with pytest.raises(InvalidIndex, match="object"):
        use(data)


def test_a_function_under_the_key_of_another() -> None:
    data = with_fresh_digests(objects_of(edited(dict), {**FUNCTION, "name": "other"}))
    with pytest.raises(InvalidIndex, match="the object of key"):
        use(data)


@pytest.mark.parametrize("count", [-1, 1.0, True, "1", None, float("inf"), 10**400, 1 << 60])
@pytest.mark.parametrize("name", ["rows", "objects"])
def test_header_counts(name: str, count: Any) -> None:
    with pytest.raises(InvalidIndex):
        use(with_fresh_digests([], {**HEADER, name: count}))


@pytest.mark.parametrize("header", [b'{"rows": 0}', b"[]", b'{"a":1e999}', b'{"a":1,"a":1}'])
def test_headers_that_are_not_canonical(header: bytes) -> None:
    with pytest.raises(InvalidIndex, match="a header in JSON"):
        Index.open(vouched(header + b"\n"), "index")


def test_functions_twice_and_rows_out_of_order() -> None:
    twice = objects_of(edited(dict))
    with pytest.raises(InvalidIndex, match="rows in order"):
        use(with_fresh_digests([*twice, twice[1]]))
    index = Index.open(INDEX, "index")
    head, rows = INDEX[HEAD_AT : index._rows], INDEX[index._rows : index._objects]
    backwards = b"".join(rows[at : at + 136] for at in reversed(range(0, len(rows), 136)))
    with pytest.raises(InvalidIndex, match="rows in order"):
        use(vouched(head + backwards) + INDEX[index._objects :])


def test_a_row_whose_numbers_have_signs() -> None:
    data = write_index(HEADER, [make_function()], [])
    index = Index.open(data, "index")
    row = data[index._rows : index._objects].replace(b" 000000000000 ", b" -00000000000 ")
    head = canonical_json({**HEADER, "objects": len(data) - index._objects, "rows": 1}) + b"\n"
    with pytest.raises(InvalidIndex, match="row 0"):
        use(vouched(head + row) + data[index._objects :])


def test_a_name_that_no_function_can_have() -> None:
    index = Index.open(INDEX, "index")
    assert index.function("\ud800") is None
    assert index.records("\ud800") == []


@pytest.mark.parametrize(
    "data",
    [{"complex": [1]}, {"complex": {}}, {"float": 10**400}, {"float": "x"}, {"dict": [[[], 1]]},
     {"tuple": 1}, {"bytes": 1}, nested(5000)],
)  # fmt: skip
def test_decoding_ends_in_one_kind_of_error(data: Any) -> None:
    with pytest.raises(ValueError, match=r"not the encoding|could not convert"):
        decode(data)


def test_what_cannot_be_decoded_is_shown_as_json() -> None:
    assert shown({"complex": [1]}) == '{"complex": [1]}'


def test_json_that_is_too_deep() -> None:
    for depth, text in ((300, b"["), (100_000, b"["), (100_000, b'{"a":')):
        with pytest.raises(ValueError, match=r"deeper than 256 levels|not canonical|Expecting"):
            read_canonical(text * depth + (b"]" * depth if text == b"[" else b""))
    assert read_canonical(canonical_json(nested(255))) == nested(255)
    assert make_record().signature.key()


def test_trees_that_a_reader_would_refuse_are_not_described() -> None:
    tree: Any = 1
    for _ in range(202):
        tree = (tree,)
    for refuse in (describe, lambda treedef: describe_output(treedef, jax.tree.structure(()))):
        with pytest.raises(TreeRefused, match="deeper than 200 levels"):
            refuse(jax.tree.structure(tree))
        assert refuse(jax.tree.structure(tree[0]))
