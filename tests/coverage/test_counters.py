"""Production's counters: what `Library.stats()` counts is compared as a recording is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.reports import facts_of, make_function, make_record

from aotbuild.coverage.counters import called, is_counters, notes, read_counters
from aotbuild.coverage.package import PackageServing
from aotbuild.coverage.result import Called
from aotbuild.errors import InvalidRecording
from aotbuild.format.padding import PaddedDim, Padding
from aotbuild.record.recording import first_line

PADDED = Padding((PaddedDim("batch", 0.0),), ((4,), (8,)), (((0, 0),),), (((0, 0),),))


def counted(root: Path, calls: object, **more: object) -> dict[str, Called]:
    function = make_function(keywords=(), pad=PADDED)
    facts = facts_of(root, [function], [make_record(batch=4), make_record(batch=8)])
    (root / "counters.json").write_text(json.dumps({"calls": calls, **more}))
    counters = read_counters(root / "counters.json", "pack")
    return {each.signature: each for each in called(counters, PackageServing(facts))}


def test_exact_padded_and_missing(tmp_path: Path) -> None:
    texts = ["f32[4,2], k=3", "f32[6,2], k=3", "f32[9,2], k=3", "f32[4,2], k=4", "others"]
    found = counted(tmp_path, {"f": dict.fromkeys(texts, 7)})
    assert [str(each.state) for each in found.values()] == ["exact", "padded", *["missing"] * 3]
    assert found[texts[1]].serving.waste == 0.25
    assert found[texts[2]].serving.reasons == (
        "nearest: batch=8",
        "x: compiled for f32[8,2], called with f32[9,2]",
    )
    assert {each.tally.calls for each in found.values()} == {7}


def test_calls_that_an_overload_served(tmp_path: Path) -> None:
    first = make_function(keywords=(), overloads=("g",))
    other = make_function("g", keywords=(), overload_of="f")
    records = [make_record(batch=4), make_record("g", batch=9)]
    package = PackageServing(facts_of(tmp_path, [first, other], records))
    (tmp_path / "counters.json").write_text('{"calls": {"f": {"f32[9,2], k=3": 1}}}')
    (found,) = called(read_counters(tmp_path / "counters.json", "pack"), package)
    assert (found.name, found.serving.label, str(found.state)) == ("g", "batch=9", "exact")


def test_a_function_that_the_package_lacks(tmp_path: Path) -> None:
    found = counted(tmp_path, {"g": {"f32[4,2]": 1}})
    assert found["f32[4,2]"].serving.reasons == ("the package has no function g",)


def test_counters_of_several_packages(tmp_path: Path) -> None:
    file = tmp_path / "all.json"
    file.write_text(json.dumps({"pack": {"calls": {"f": {"f32[4,2]": 2}}, "refused": 3}}))
    found = read_counters(file, "pack")
    assert found.calls == {"f": {"f32[4,2]": 2}}
    assert [*notes(found)] == [f"{file}: 3 calls had no executable"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "no JSON"),
        ("[]", "list"),
        ('{"functions": 3}', "counters without calls"),
        ('{"calls": {"f": {"f32[2]": "many"}}}', "counters without calls"),
        ('{"calls": {"f": {"f32[2]": -1}}}', "counters without calls"),
        ('{"calls": {"f": {"f32[2]": 1' + "0" * 400 + "}}}", "counters without calls"),
    ],
)
def test_what_is_neither(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(InvalidRecording, match=words):
        read_counters(tmp_path / "x.json", "pack")


def test_a_recording_is_told_by_its_first_line(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(first_line())
    (tmp_path / "b").write_text("{}")
    assert [is_counters(tmp_path / name) for name in "ab"] == [False, True]
