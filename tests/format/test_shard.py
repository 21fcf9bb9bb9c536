"""Shards: which of how many, as text, as a variable and in the header of an index."""

from __future__ import annotations

from typing import Any

import pytest

from aotbuild.errors import PlanError
from aotbuild.format.shard import Shard, ShardHeader, chosen_shard, read_shard, shard_note

HEADER = ShardHeader(Shard(3, 8), "a" * 64, "b" * 64, "c" * 64).to_header()


@pytest.mark.parametrize("text", ["1/1", "3/8", "100000/100000"])
def test_text(text: str) -> None:
    assert str(Shard.parse(text)) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "3",
        "0/8",
        "9/8",
        "-1/8",
        "3/",
        "/8",
        "3 / 8",
        "3/8/1",
        "1/100001",
        "٣/8",
        "3-8",
        "01/3",
        "1/03",
        "0/0",
    ],
)
def test_a_text_that_names_none(text: str) -> None:
    with pytest.raises(ValueError, match="expected a shard and their number, as 3/8") as caught:
        Shard.parse(text)
    assert repr(text) in str(caught.value)


def test_the_variable() -> None:
    assert chosen_shard({}) is chosen_shard({"AOTBUILD_SHARD": ""}) is None
    assert chosen_shard({"AOTBUILD_SHARD": "3/8"}) == Shard(3, 8)
    with pytest.raises(PlanError) as caught:
        chosen_shard({"AOTBUILD_SHARD": "0/8"})
    assert str(caught.value) == (
        "the environment variable AOTBUILD_SHARD: expected a shard and their number, as 3/8, "
        "counted from 1; found '0/8'"
    )


def test_the_header() -> None:
    assert read_shard({}) is None
    assert read_shard(HEADER) == ShardHeader(Shard(3, 8), "a" * 64, "b" * 64, "c" * 64)


@pytest.mark.parametrize(
    "changes",
    [{"number": 0}, {"of": 2}, {"of": None}, {"plan": "a"}, {"split": 3}, {"results": "C" * 64}],
)
def test_a_malformed_header(changes: dict[str, Any]) -> None:
    header = {"shard": {**HEADER["shard"], **changes}}
    with pytest.raises(ValueError, match="header: shard: expected a number, and digests, found"):
        read_shard(header)
    note = "this is a shard of a build, not the whole package: `aotbuild merge` joins all"
    assert shard_note(header) == note


@pytest.mark.parametrize("found", [None, [], "3/8", 3, {}])
def test_a_header_that_is_something_else(found: Any) -> None:
    with pytest.raises(ValueError, match="header: shard"):
        read_shard({"shard": found})
