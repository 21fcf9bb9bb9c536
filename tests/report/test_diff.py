"""Differences of two packages: gained, lost, changed, and nothing where nothing changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from support.reports import ANALYSIS, HEADER, facts_of, make_function, make_record

from aotbuild.format.record import Record
from aotbuild.format.signature import Function
from aotbuild.report.diff import Diff, Unit, diff
from aotbuild.report.diff_words import cost_rows, diff_document, diff_lines

OLD = ([make_function()], [make_record()])
V4, PORTABLE = "cpu:x86-64-v4:1", "portable:cpu:1"


def compare(
    root: Path,
    new: tuple[list[Function], list[Record]],
    old: tuple[list[Function], list[Record]] = OLD,
    **header: Any,
) -> Diff:
    return diff(
        facts_of(root / "old", *old), facts_of(root / "new", *new, header={**HEADER, **header})
    )


def lines(found: Diff) -> list[str]:
    return [line for line in diff_lines(found) if not line.startswith("~ size")]


def test_nothing(tmp_path: Path) -> None:
    found = compare(tmp_path, OLD)
    assert found.is_empty
    assert (list(diff_lines(found)), cost_rows(found)) == ([], [])


def test_functions(tmp_path: Path) -> None:
    found = compare(tmp_path, ([make_function("g")], [make_record("g")]))
    assert lines(found) == ["+ function g", "- function f"]


def test_a_function_that_is_called_otherwise(tmp_path: Path) -> None:
    found = compare(tmp_path, ([make_function(call="pack.m:g", donate=())], OLD[1]))
    assert lines(found)[0] == "~ function f: call pack.m:f → pack.m:g"
    assert [f.name for f in found.functions.changed[0][1]] == ["call", "parameters"]


def test_signatures(tmp_path: Path) -> None:
    found = compare(tmp_path, (OLD[0], [make_record(batch=8)]))
    assert lines(found) == ["+ signature f(batch=8)", "- signature f(batch=1)"]


def test_a_signature_with_other_inputs(tmp_path: Path) -> None:
    found = compare(tmp_path, (OLD[0], [make_record(width=3)]))
    assert lines(found) == [
        "~ signature f(batch=1)",
        "    inputs[0]: f32[1,2] → f32[1,3]",
        "    outputs[0]: f32[1,2] → f32[1,3]",
    ]
    assert not found.signatures.gained


def test_targets(tmp_path: Path) -> None:
    found = compare(tmp_path, (OLD[0], [make_record(), make_record(target=PORTABLE)]))
    assert lines(found) == [f"+ target {PORTABLE}", f"+ executable f(batch=1) for {PORTABLE}"]
    assert found.executables.gained == (Unit("f", "f(batch=1)", PORTABLE),)


def test_costs(tmp_path: Path) -> None:
    record = make_record(data=b"x" * 2000, analysis={**ANALYSIS, "flops": 2e6, "temp_bytes": 1030})
    found = compare(tmp_path, (OLD[0], [record]))
    name = "f(batch=1) for cpu:x86-64-v3:1"
    assert cost_rows(found) == [
        (name, "size", "17 B", "2 kB", "+11664.7%"),
        (name, "flops", "1 M", "2 M", "+100.0%"),
        (name, "peak memory", "1.13 kB", "2.13 kB", "+88.5%"),
    ]
    assert lines(found) == [f"~ {name}: other bytes"]


def test_requirements_that_several_share_are_one_line(tmp_path: Path) -> None:
    old = (OLD[0], [make_record(batch=b) for b in (1, 8)])
    new = (OLD[0], [make_record(batch=b, jaxlib="0.11.0", calls=("boom",)) for b in (1, 8)])
    found = compare(tmp_path, new, old, jaxlib="0.11.0", fallback="jit")
    assert lines(found) == [
        "~ jaxlib 0.10.2 → 0.11.0",
        "~ fallback none → jit",
        "~ 2 executables: requires.jaxlib 0.10.2 → 0.11.0",
        "~ 2 executables: requires.custom_calls none → boom (user)",
    ]


def test_settings(tmp_path: Path) -> None:
    record = make_record(provenance={"xla_flags": "--a=1"})
    found = compare(tmp_path, (OLD[0], [record]))
    name = "f(batch=1) for cpu:x86-64-v3:1"
    assert lines(found) == [f"~ {name}: provenance.xla_flags none → --a=1"]


def test_the_document(tmp_path: Path) -> None:
    old = facts_of(tmp_path / "old", *OLD)
    new = facts_of(tmp_path / "new", OLD[0], [make_record(data=b"new"), make_record(target=V4)])
    document = diff_document(diff(old, new), old, new)
    assert list(document) == [
        "old", "new", "different", "package", "functions", "signatures", "targets", "executables",
    ]  # fmt: skip
    assert document["different"] is True
    assert document["old"]["totals"]["executables"] == 1
    assert document["targets"]["gained"] == [{"target": V4}]
    assert document["executables"]["gained"] == [
        {"function": "f", "signature": "f(batch=1)", "target": V4}
    ]
    changed = document["executables"]["changed"]
    assert changed[0]["fields"]["size"] == {"old": 17, "new": 3}
