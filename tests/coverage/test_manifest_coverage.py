"""What of a manifest will serve recorded calls, before anything is built."""

from __future__ import annotations

from typing import Any

from support.recordings import argument, call, recording

from aotbuild.coverage.compare import compare
from aotbuild.coverage.manifest import ManifestServing
from aotbuild.coverage.result import Coverage, State
from aotbuild.manifest import parse_manifest
from aotbuild.record.recording import Recording

NAME = "pack.m:f"
MANIFEST = """
version: 1
package: pack
targets: [cpu]
functions:
  f:
    call: pack.m:f
    args: [{params: ["f32[16]"]}, {x: "f32[batch,4]"}]
    dims: {batch: [4, 8]}
    pad: {batch: 0}
    static: {mode: [fast, exact]}
"""
PARAMS = argument("params", "f32[16]", tree=["list", "*"])


def covered(found: Recording, text: str = MANIFEST) -> Coverage:
    return compare(found, ManifestServing("aot.yaml", parse_manifest(text)))


def calls(*shapes: str, mode: str = "fast", **more: Any) -> list[Any]:
    return [call(PARAMS, argument("x", f"f32[{shape}]"), mode=mode, **more) for shape in shapes]


def test_exact_padded_missing_and_never_called() -> None:
    coverage = covered(recording({NAME: calls("4,4", "6,4", "9,4")}))
    assert [(str(each.state), each.serving.label) for each in coverage.called] == [
        ("exact", "batch=4, mode='fast'"),
        ("padded", "batch=8, mode='fast'"),
        ("missing", ""),
    ]
    assert coverage.called[1].serving.waste == 0.25
    assert coverage.called[2].serving.reasons == (
        "batch=9 is not listed under dims:, the nearest is batch=8",
    )
    assert [each.label for each in coverage.unused] == [
        "batch=4, mode='exact'",
        "batch=8, mode='exact'",
    ]


def test_a_static_value_that_is_not_listed() -> None:
    missing, *_ = covered(recording({NAME: calls("4,4", mode="slow")})).of(State.MISSING)
    assert missing.serving.reasons == ("static mode: 'slow' is not among 'fast', 'exact'",)


def test_another_dtype_and_no_entry() -> None:
    wrong = call(PARAMS, argument("x", "bf16[4,4]"), mode="fast")
    found = recording({NAME: [wrong], "pack.m:g": [call(argument("x", "f32[2]"))]})
    reasons = [each.serving.reasons[0] for each in covered(found).called]
    assert reasons == [
        "an argument is float32, and bf16[4,4] was passed",
        "the manifest has no function with call: pack.m:g",
    ]


def test_the_best_of_several_entries_counts() -> None:
    more = """
  f_2:
    call: pack.m:f
    args: [{params: ["f32[16]"]}, {x: "bf16[4,4]"}]
    static: {mode: [fast]}
"""
    wanted = call(PARAMS, argument("x", "bf16[4,4]"), mode="fast")
    (found,) = covered(recording({NAME: [wanted]}), MANIFEST + more).called
    assert (found.name, found.state) == ("f_2", State.EXACT)


def test_trees_under_like_are_taken_to_be_what_was_passed() -> None:
    text = MANIFEST.replace('["f32[16]"]', '{like: "pack.m:init"}')
    (found,) = covered(recording({NAME: calls("4,4")}), text).called
    assert found.state is State.EXACT
    assert found.serving.reasons == ("pack.m:init is taken to be what was passed",)
