"""What a build left out: its entry in the header, joined, bounded, and as lines of errors."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from support.reports import HEADER, make_function, make_record

from aotbuild.format.index import Index, write_index
from aotbuild.format.left_out import (
    AllLeftOut,
    LeftOut,
    join_left_out,
    left_out_header,
    read_left_out,
    unit_of,
)

V3 = "cpu:x86-64-v3:1"
UNIT = LeftOut("f", "f(batch=1)", V3, "trace", "it raised\nhere", "0.10.2", "ab" * 16)
PORTABLE = LeftOut("f", "f(batch=1)", "portable:cpu:1", "compile", "no rule")


def test_the_header_is_read_back() -> None:
    found = AllLeftOut((UNIT, PORTABLE))
    data = write_index({**HEADER, **left_out_header(found)}, [make_function()], [make_record()])
    assert read_left_out(Index.open(data, "index").header) == found


def test_nothing_is_written_if_nothing_was_left_out() -> None:
    assert left_out_header(AllLeftOut()) == {}
    assert read_left_out(HEADER) == AllLeftOut()


def test_equal_contents_give_equal_headers() -> None:
    orders = (UNIT, PORTABLE), (PORTABLE, UNIT)
    one, other = (left_out_header(AllLeftOut(units)) for units in orders)
    assert one == other


def test_a_list_that_is_too_long_counts_the_rest() -> None:
    units = tuple(replace(UNIT, signature=f"f(batch={n})", reason="é" * 800) for n in range(2000))
    header = {**HEADER, **left_out_header(AllLeftOut(units))}
    opened = Index.open(write_index(header, [make_function()], [make_record()]), "index")
    found = read_left_out(opened.header)
    assert 100 < len(found.units) < 1000
    assert found.count == 2000


@pytest.mark.parametrize(
    "stated",
    [
        [],
        {},
        3,
        {"units": 3},
        {"units": [3]},
        {"units": [{"function": "f"}]},
        {"units": [{**vars(UNIT), "key": 3}]},
        {"units": [{**vars(UNIT), "other": "x"}]},
        {"units": [], "more": "2"},
        {"units": [], "more": -1},
        {"units": [], "more": True},
    ],
)
def test_a_malformed_one_is_an_error(stated: Any) -> None:
    with pytest.raises(ValueError, match="header: left_out: expected "):
        read_left_out({"left_out": stated})


def test_what_is_present_in_another_package_is_present() -> None:
    record = make_record()
    assert unit_of(record) == UNIT.unit
    groups = [AllLeftOut((UNIT, PORTABLE)), AllLeftOut((replace(PORTABLE, reason="z"),))]
    assert join_left_out(groups, [record]) == AllLeftOut((PORTABLE,))
    assert join_left_out(groups, []).units == (UNIT, PORTABLE)
    other_jaxlib = make_record(jaxlib="0.12.0.1")
    assert join_left_out(groups, [other_jaxlib]).units == (UNIT, PORTABLE)


def test_lines_of_errors() -> None:
    cuda = replace(UNIT, target="cuda:h100-sxm:1")
    found = AllLeftOut((UNIT, cuda, PORTABLE, replace(UNIT, function="g")))
    words = "was left out of this wheel when it was built"
    assert found.lines("f") == [
        f"f(batch=1) for {V3}, cuda:h100-sxm:1 {words}: trace: it raised here",
        f"f(batch=1) for portable:cpu:1 {words}: compile: no rule",
    ]
    assert found.lines("h") == found.lines("f", {"f(batch=2)"}) == []
    assert len(found.lines("f", {"f(batch=1)"})) == 2
    assert found.of_call("f", "ab" * 16).units == (UNIT, cuda, PORTABLE)
    assert found.of_call("f", "cd" * 16).units == ()
    many = AllLeftOut(tuple(replace(UNIT, signature=f"f({n})") for n in range(5)))
    assert many.lines("f")[-1] == "and 2 more signatures"
