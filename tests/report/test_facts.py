"""Facts of a package: order, totals, and numbers that are none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.reports import ANALYSIS, HEADER, WEIGHTS, facts_of, make_function, make_record

from aotbuild.report.document import package_document
from aotbuild.report.facts import constants, short_label, targets, total_size
from aotbuild.report.words import flops, number, peak_memory, shown

PORTABLE = "portable:cpu:1"


def test_signatures_are_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    facts = facts_of(tmp_path, [make_function()], [make_record(batch=b) for b in (32, 1, 8)])
    assert [short_label(s) for s in facts.functions[0].signatures] == [
        "batch=1",
        "batch=8",
        "batch=32",
    ]


def test_targets_go_from_low_to_high_and_portable_comes_last(tmp_path: Path) -> None:
    names = [PORTABLE, "cuda:sm_90:1", "cpu:x86-64-v4:1", "cpu:x86-64-v3:2", "cpu:x86-64-v3:1"]
    facts = facts_of(tmp_path, [make_function()], [make_record(target=name) for name in names])
    assert targets(facts) == [names[4], names[3], names[2], names[1], names[0]]


def test_shared_blobs_count_once(tmp_path: Path) -> None:
    records = [make_record(batch=b, data=b"same", constants=True) for b in (1, 8)]
    facts = facts_of(tmp_path, [make_function()], records)
    assert total_size(facts) == facts.index_size + len(b"same") + len(WEIGHTS)
    assert [(c.blob.size, users) for c, users in constants(facts)] == [(len(WEIGHTS), 2)]


def test_peak_memory_counts_donated_buffers_once() -> None:
    assert peak_memory(make_record()) == 1000 + 200 + 30 - 100
    assert peak_memory(make_record(analysis={**ANALYSIS, "temp_bytes": None})) is None
    assert peak_memory(make_record(target=PORTABLE)) is None


@pytest.mark.parametrize(
    "value", [None, "1", True, -1, -1.0, float("nan"), float("inf"), [1], 10**40]
)
def test_what_is_no_number_is_unknown(value: Any) -> None:
    assert number(value) is None
    assert flops(make_record(analysis={"flops": value})) is None


def test_symbolic_dims_are_shown(tmp_path: Path) -> None:
    record = make_record(target=PORTABLE, provenance={"symbolic_leaves": ["f32[b,2]"]})
    facts = facts_of(tmp_path, [make_function()], [record, make_record()])
    assert facts.functions[0].signatures[0].inputs == ("f32[b,2]",)


def test_a_function_without_records(tmp_path: Path) -> None:
    facts = facts_of(tmp_path, [make_function()], [], {**HEADER, "package": 7})
    assert (facts.name, facts.records, facts.signature_count) == ("7", [], 0)
    assert package_document(facts)["functions"][0]["signatures"] == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain é", "plain é"),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("a\nb", "a\\nb"),
        ("\u202egnp.exe", "\\u202egnp.exe"),
        ("\ud800", "\\ud800"),
        ("x" * 500, "x" * 399 + "…"),
        ({"a": float("nan")}, '{"a": "nan"}'),
    ],
)
def test_what_is_shown_is_printable(text: Any, expected: str) -> None:
    assert shown(text) == expected
