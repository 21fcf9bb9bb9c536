"""What of a package serves recorded calls: exactly, by padding, for which targets, and why not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.recordings import Call, argument, call, recording
from support.reports import facts_of, make_function, make_record

from aotbuild.coverage.compare import compare, part_notes
from aotbuild.coverage.package import PackageServing
from aotbuild.coverage.result import Coverage, Measure, State
from aotbuild.format.padding import PaddedDim, Padding
from aotbuild.format.record import Record
from aotbuild.format.signature import Function, Static
from aotbuild.record.recording import RecordedFunction, Recording

NAME = "pack.m:f"
FUNCTION = make_function(keywords=(), statics=(Static("k", 3),))
PADDED = Padding((PaddedDim("batch", 0.0),), ((4,), (8,)), (((0, 0),),), (((0, 0),),))
X = argument("x", "f32[1,2]")


def x(batch: int, **more: Any) -> Call:
    return call(argument("x", f"f32[{batch},2]"), **more)


def covered(
    root: Path,
    found: Recording,
    *records: Record,
    function: Function = FUNCTION,
    target: str = "",
    **options: Any,
) -> Coverage:
    facts = facts_of(root, [function], [*records])
    return compare(found, PackageServing(facts, target), **options)


def states(coverage: Coverage) -> dict[str, str]:
    return {each.signature: str(each.state) for each in coverage.called}


def test_exact_missing_and_never_called(tmp_path: Path) -> None:
    found = recording({NAME: [x(1, times=9), x(3, times=1, seconds=4.0)]})
    coverage = covered(tmp_path, found, make_record(batch=1), make_record(batch=8))
    assert states(coverage) == {"x f32[3,2]": "missing", "x f32[1,2]": "exact"}
    missing, exact = coverage.called
    assert missing.serving.reasons == (
        "nearest: batch=1",
        "x: compiled for f32[1,2], called with f32[3,2]",
    )
    assert (exact.name, exact.serving.label) == ("f", "batch=1")
    assert [each.label for each in coverage.unused] == ["batch=8"]
    assert coverage.unused[0].targets == ("cpu:x86-64-v3:1",)
    shares = {str(m): str(coverage.share(m)) for m in Measure}
    assert shares == {"calls": "90.0%", "seconds": "20.0%", "signatures": "50.0%"}


def test_padding_and_its_waste(tmp_path: Path) -> None:
    function = make_function(keywords=(), statics=(Static("k", 3),), pad=PADDED)
    found = recording({NAME: [x(4), x(6, times=3), x(9)]})
    coverage = covered(
        tmp_path, found, make_record(batch=4), make_record(batch=8), function=function
    )
    assert states(coverage) == {
        "x f32[4,2]": "exact",
        "x f32[6,2]": "padded",
        "x f32[9,2]": "missing",
    }
    padded = coverage.of(State.PADDED)[0]
    assert (padded.serving.label, padded.serving.waste) == ("batch=8", 0.25)
    assert coverage.waste == 0.25
    assert coverage.unused == ()


def test_defaults_of_static_arguments_count(tmp_path: Path) -> None:
    found = recording({NAME: [call(X, k=3), call(X, k=4), call(X)]})
    coverage = covered(tmp_path, found, make_record())
    assert states(coverage) == {
        "x f32[1,2], k=3": "exact",
        "x f32[1,2], k=4": "missing",
        "x f32[1,2]": "exact",
    }
    lines = coverage.of(State.MISSING)[0].serving.reasons
    assert lines == ("nearest: batch=1", "static k: compiled with 3, called with 4")


def test_each_target_counts_and_one_may_be_chosen(tmp_path: Path) -> None:
    cpu, gpu = make_record(batch=1), make_record(batch=1, target="cuda:h100:1")
    both = make_record(batch=8)
    found = recording({NAME: [x(1), x(8)]})
    (tmp_path / "all").mkdir()
    coverage = covered(tmp_path / "all", found, cpu, gpu, both)
    assert states(coverage) == {"x f32[1,2]": "exact", "x f32[8,2]": "missing"}
    assert coverage.of(State.MISSING)[0].serving.reasons == (
        "batch=8 is compiled, but not for cuda:h100:1",
    )
    (tmp_path / "cpu").mkdir()
    coverage = covered(tmp_path / "cpu", found, cpu, gpu, both, target="cpu")
    assert {*states(coverage).values()} == {"exact"}


def test_a_cpu_runs_what_is_for_a_lower_level(tmp_path: Path) -> None:
    records = [make_record(), make_record(batch=8), make_record(batch=8, target="cpu:x86-64-v4:1")]
    coverage = covered(tmp_path, recording({NAME: [x(1), x(8)]}), *records)
    assert {*states(coverage).values()} == {"exact"}


def test_a_portable_form_is_compiled_when_it_is_called(tmp_path: Path) -> None:
    records = [make_record(), make_record(batch=8, target="portable:cpu:1")]
    coverage = covered(tmp_path, recording({NAME: [x(1), x(8)]}), *records)
    assert states(coverage) == {"x f32[1,2]": "exact", "x f32[8,2]": "portable"}
    assert str(coverage.share(Measure.CALLS)) == "50.0%"


def test_a_portable_form_of_any_size(tmp_path: Path) -> None:
    open_size = make_record(
        batch=2, target="portable:cpu:1", provenance={"symbolic_leaves": ["f32[b,2]"]}
    )
    coverage = covered(tmp_path, recording({NAME: [x(5)]}), make_record(), open_size)
    assert states(coverage) == {"x f32[5,2]": "portable"}


def test_functions_and_arguments_that_are_not_there(tmp_path: Path) -> None:
    other = argument("y", "f32[1,2]")
    unnameable = RecordedFunction("prog:<lambda>", problem="it is a lambda", file="p.py", line=3)
    found = recording({"pack.m:g": [call(X)], NAME: [call(X, other)]}, (unnameable, [call(X)]))
    coverage = covered(tmp_path, found, make_record())
    reasons = {each.function: each.serving.reasons for each in coverage.called}
    assert reasons == {
        "pack.m:g": ("the package has no function that calls pack.m:g",),
        NAME: ("compiled without the argument y, called with it",),
        "prog:<lambda>": ("it is a lambda",),
    }
    assert coverage.share(Measure.CALLS).covered == 0


def test_another_tree_or_dtype_is_another_signature(tmp_path: Path) -> None:
    in_a_list = argument("x", "f32[1,2]", tree=["list", "*"])
    weak = argument("x", "~f32[1,2]")
    coverage = covered(tmp_path, recording({NAME: [call(in_a_list), call(weak)]}), make_record())
    assert [each.serving.reasons[1] for each in coverage.called] == [
        "the trees of the arguments, or static data in them, differ",
        "x: compiled for f32[1,2], called with ~f32[1,2]",
    ]


def test_a_mesh_and_its_shardings(tmp_path: Path) -> None:
    record = make_record(target="cpu:x86-64-v3:2")  # in_specs: ("d", None) over the mesh d=2

    def sharded(mesh: dict[str, int], spec: list[Any]) -> Call:
        return Call([argument("x", "f32[1,2]", shardings=(spec,))], more={"mesh": mesh})

    calls = [sharded({"d": 2}, ["d"]), sharded({"d": 2}, [None, "d"]), sharded({"e": 4}, ["e"])]
    coverage = covered(tmp_path, recording({NAME: calls}), record)
    assert sorted(each.serving.reasons for each in coverage.called) == [
        (),
        ("batch=1: compiled for the mesh d=2, called over the mesh e=4",),
        ("batch=1: x: compiled for ['d', None], called with [None, 'd']",),
    ]


def test_operations_of_jax_are_told_apart(tmp_path: Path) -> None:
    found = recording({NAME: [x(1)], "jax.numpy:mean": [call(X, times=3)]})
    (tmp_path / "apart").mkdir()
    coverage = covered(tmp_path / "apart", found, make_record())
    assert str(coverage.share(Measure.CALLS)) == "100%"
    assert coverage.operations[0] == 1
    assert coverage.operations[1].calls == 3
    (tmp_path / "counted").mkdir()
    coverage = covered(tmp_path / "counted", found, make_record(), count_operations=True)
    assert str(coverage.share(Measure.CALLS)) == "25.0%"


def test_all_but_one_call_is_not_all(tmp_path: Path) -> None:
    found = recording({NAME: [x(1, times=10**7), x(2)]})
    coverage = covered(tmp_path, found, make_record())
    assert str(coverage.share(Measure.CALLS)) == "99.9%"
    assert not coverage.share(Measure.CALLS).is_whole


def test_nothing_was_called(tmp_path: Path) -> None:
    coverage = covered(tmp_path, Recording(), make_record())
    assert [each.label for each in coverage.unused] == ["batch=1"]
    assert str(coverage.share(Measure.CALLS)) == "-"
    assert coverage.share(Measure.CALLS).is_whole


def test_a_cpu_of_another_architecture_runs_nothing(tmp_path: Path) -> None:
    records = [make_record(), make_record(batch=8, target="cpu:aarch64:1")]
    coverage = covered(tmp_path, recording({NAME: [x(1), x(8)]}), *records)
    assert {*states(coverage).values()} == {"missing"}
    assert coverage.called[0].serving.reasons[0].startswith("batch=1 is compiled, but not for")


def test_an_executable_for_one_of_two_jaxlibs(tmp_path: Path) -> None:
    records = [make_record(), make_record(batch=8), make_record(batch=8, jaxlib="0.12.0")]
    coverage = covered(tmp_path, recording({NAME: [x(1), x(8)]}), *records)
    assert states(coverage) == {"x f32[1,2]": "missing", "x f32[8,2]": "exact"}
    assert coverage.of(State.MISSING)[0].serving.reasons == (
        "batch=1 is compiled, but not for cpu:x86-64-v3:1 with jaxlib 0.12.0",
    )


def test_a_call_is_not_padded_past_an_executable_for_another_target(tmp_path: Path) -> None:
    function = make_function(keywords=(), statics=(Static("k", 3),), pad=PADDED)
    every = [make_record(batch=8), make_record(batch=8, target="cuda:h100:1")]
    found = recording({NAME: [x(4), x(3)]})
    coverage = covered(tmp_path, found, make_record(batch=4), *every, function=function)
    # A call on a GPU finds that 4 has an executable, which is not for it.
    assert states(coverage) == {"x f32[4,2]": "missing", "x f32[3,2]": "missing"}
    reasons = {each.serving.reasons for each in coverage.called}
    assert reasons == {("batch=4 is compiled, but not for cuda:h100:1",)}


def test_a_call_with_x64_does_not_run_what_is_compiled_without(tmp_path: Path) -> None:
    wide = Call([X], more={"config": {"jax_enable_x64": True}})
    coverage = covered(tmp_path, recording({NAME: [wide]}), make_record())
    assert coverage.called[0].serving.reasons == (
        "batch=1: compiled with jax_enable_x64=False, called with True",
    )


@pytest.mark.parametrize(
    ("option", "compiled", "called"),
    [
        ("jax_threefry_partitionable", True, False),
        ("jax_default_prng_impl", "rbg", None),
        ("jax_default_matmul_precision", None, "highest"),
    ],
)
def test_a_call_with_another_option_does_not_run_what_is_compiled(
    option: str, compiled: object, called: object, tmp_path: Path
) -> None:
    record = make_record(provenance={"config": {option: compiled}})
    same = Call([X], more={"config": {} if compiled in (None, True) else {option: compiled}})
    other = Call([X], more={"config": {} if called is None else {option: called}})
    (alike,) = covered(tmp_path / "same", recording({NAME: [same]}), record).called
    assert alike.serving.state.is_covered
    (unlike,) = covered(tmp_path, recording({NAME: [other]}), record).called
    shown = "threefry2x32" if called is None else called
    assert unlike.serving.reasons == (
        f"batch=1: compiled with {option}={compiled}, called with {shown}",
    )


def test_what_other_wheels_hold_is_told() -> None:
    header = {"companions": {"cuda": "pack-cuda"}, "shard": {}}
    companion, shard = part_notes(header)
    assert companion == "executables for cuda are in pack-cuda, which was not looked at"
    assert shard.startswith("this is a shard of a build")
    assert [*part_notes({"companions": 3})] == []


def test_calls_of_functions_that_the_recording_lacks(tmp_path: Path) -> None:
    found = recording({NAME: [x(1)]})
    found.functions.clear()
    coverage = covered(tmp_path, found, make_record())
    assert coverage.called == ()
    assert coverage.notes == (
        "1 recorded call of functions that the recording lacks: not counted; record again",
    )


def test_a_function_goes_before_its_overloads_also_if_it_pads(tmp_path: Path) -> None:
    parts: dict[str, Any] = {"keywords": (), "statics": (Static("k", 3),)}
    function = make_function(**parts, overloads=("a",), pad=PADDED)
    other = make_function("a", **parts, overload_of="f")
    facts = facts_of(tmp_path, [function, other], [make_record(batch=8), make_record("a", batch=6)])
    coverage = compare(recording({NAME: [x(6)]}), PackageServing(facts))
    (found,) = coverage.called
    assert (found.name, str(found.state), found.serving.label) == ("f", "padded", "batch=8")
    assert [each.function for each in coverage.unused] == ["a"]
