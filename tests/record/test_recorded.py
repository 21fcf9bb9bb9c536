"""From a recording to a manifest: all calls are in it, nothing else is, and people are told."""

from __future__ import annotations

import enum
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.recordings import Call, argument, call, recording

from aotbuild.errors import ProjectError
from aotbuild.format.canonical import canonical_json
from aotbuild.manifest import Function, parse_manifest
from aotbuild.record.recorded import (
    NothingToCompile,
    Proposal,
    ProposalOptions,
    update_manifest,
    write,
)
from aotbuild.record.recording import RecordedFunction, Recording

NOWHERE = Path("nowhere/aot.yaml")


def proposed(found: Recording, **options: Any) -> Proposal:
    return update_manifest(found, NOWHERE, ProposalOptions(**options))


def functions(proposal: Proposal) -> dict[str, Function]:
    return parse_manifest(proposal.text).functions


def sizes(*shapes: str, dtype: str = "f32") -> list[Call]:
    return [call(argument("x", f"{dtype}[{shape}]")) for shape in shapes]


def test_a_new_manifest() -> None:
    params = argument("params", "f32[4]", "f32[4,4]", tree=["dict", ["b", "w"], "*", "*"])
    calls = [
        call(params, argument("x", f"bf16[{batch},4]"), times=600, seconds=2.5, causal=causal)
        for batch in (1, 8)
        for causal in (True, False)
    ]
    assert proposed(recording({"net.model:apply": calls})).text == (
        """\
# yaml-language-server: $schema=aotbuild.schema.json
version: 1
package: net
targets: [cpu]
functions:
  # 2,400 calls, 4 signatures, 10.0 s to compile
  apply:
    call: net.model:apply
    args:
      - params: {b: "f32[4]", w: "f32[4,4]"}
      - x: bf16[batch,4]
    dims: {batch: [1, 8]}
    static: {causal: [true, false]}
"""
    )


def test_functions_are_ordered_by_the_seconds_that_they_cost() -> None:
    x = argument("x", "f32[2]")
    found = proposed(
        recording({"m:a": [call(x, seconds=1)], "m:b": [call(x, seconds=3)], "m:c": [call(x)]})
    )
    assert [*functions(found)] == ["b", "a", "c"]


def test_sizes_that_were_not_combined_are_rows() -> None:
    found = functions(proposed(recording({"m:f": sizes("1,64", "8,64", "8,128")})))["f"]
    assert found.dims == (
        {"batch": 1, "x_1": 64},
        {"batch": 8, "x_1": 64},
        {"batch": 8, "x_1": 128},
    )


def test_static_values_that_were_not_combined_are_entries() -> None:
    calls = [
        call(argument("x", f"f32[{batch},4]"), k=k)
        for batch, k in ((1, 3), (8, 3), (1, 5), (8, 5), (8, 7), (8, (2, None)), (8, 1), (8, True))
    ]
    proposal = proposed(recording({"m:f": calls}))
    found = functions(proposal)
    assert {name: (each.dims, each.static) for name, each in found.items()} == {
        "f": ({"batch": (1, 8)}, {"k": (3, 5)}),
        "f_2": ({}, {"k": (7, (2, None), 1, True)}),
    }


def test_many_sizes_are_padded_to_buckets() -> None:
    calls = [call(argument("x", f"f32[{n},4]"), times=n) for n in range(1, 41)]
    found = proposed(recording({"m:f": calls}), max_buckets=6, max_waste=0.1)
    function = functions(found)["f"]
    assert isinstance(function.dims, dict)
    assert len(function.dims["batch"]) <= 6
    assert max(function.dims["batch"]) == 40
    assert function.padded_dims[0].name == "batch"
    assert "# batch: 40 sizes from 1 to 40, most often 40 (40 calls)" in found.text
    assert "% of the work is padding" in found.text
    few = functions(proposed(recording({"m:f": calls}), max_buckets=40))["f"]
    assert not few.pad
    assert len(few.rows) == 40


def test_sizes_that_are_combined_only_where_they_are_padded() -> None:
    """Of 4 sizes, 2 is padded to 3; of 2 sizes, none is padded."""
    calls = [
        call(argument("x", f"f32[{n},2]"), times=times, k=k)
        for n, k, times in ((1, "c", 9), (2, "a", 1), (3, "b", 9), (4, "c", 9))
    ]
    found = proposed(recording({"m:f": calls}), max_buckets=3, max_waste=0)
    assert "is not compiled" not in found.text
    assert [(each.dims, each.static) for each in functions(found).values()] == [
        ({"batch": (1, 4)}, {"k": ("c",)}),
        ({}, {"k": ("a",)}),
        ({}, {"k": ("b",)}),
    ]


def test_keys_are_not_padded() -> None:
    keys = [call(argument("x", f"key<fry>[{n}]")) for n in range(1, 20)]
    found = proposed(recording({"m:f": keys}))
    assert not functions(found)["f"].pad
    assert "PRNG keys cannot be padded" in "".join(found.lines)


def test_arguments_after_one_that_is_left_out_go_by_name() -> None:
    function = RecordedFunction(
        "m:f", positional=("a", "b", "k", "c"), keywords=("d",), static=("k",)
    )
    a, b, c, d = (argument(name, "f32[2]") for name in "abcd")
    found = functions(proposed(recording({}, (function, [call(a, b, c, d, k=1)]))))["f"]
    assert ([*found.positional], [*found.kwargs]) == (["a", "b", "c"], ["d"])
    found = functions(proposed(recording({}, (function, [call(a, c, k=1)]))))["f"]
    assert ([*found.positional], [*found.kwargs]) == (["a"], ["c"])


def test_a_named_global_stands_for_its_tree() -> None:
    node = argument("s", "f32[4]", tree=["namedtuple", "m:S", "*"], like="m:state")
    small = argument("x", "f32[4]", like="m:x")
    found = proposed(recording({"m:f": [call(node, small)]}))
    assert '- s: {like: "m:state"}' in found.text
    assert "- x: f32[4]" in found.text


def test_other_nodes_are_comments(tmp_path: Path) -> None:
    tree = ["namedtuple", "optax:State", "*", ["node", "m:T", {"tuple": ["a"]}, "*"]]
    step = call(argument("state", "f32[1,4]", "i32[]", tree=tree))
    good = call(argument("x", "f32[2]"))
    found = proposed(recording({"m:good": [good], "m:step": [step]}))
    assert "# step is not compiled: args.0.state: TODO is left here; write its spec" in found.text
    assert "#     - state: TODO" in found.text


def test_what_no_manifest_can_name_is_told_with_its_line() -> None:
    lost = RecordedFunction(
        "m:<lambda>", problem="it is a lambda; use def", file="serve.py", line=9
    )
    eager = RecordedFunction("jax.numpy:add")
    x = argument("x", "f32[2]")
    found = proposed(recording({"m:f": [call(x)]}, (lost, [call(x, times=4)]), (eager, [call(x)])))
    assert found.lines[1:] == (
        "left out: serve.py:9: m:<lambda>: 4 calls, 1.0 s to compile",
        "  it is a lambda; use def",
        "left out: 1 operation outside of any jit: 1 call, 1.0 s to compile; put it into a jit",
    )
    assert found.to_json()["left_out"][0]["line"] == 9
    with pytest.raises(NothingToCompile, match=r"serve\.py:9"):
        proposed(recording({}, (lost, [call(x)])))


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (call(argument("x", "f32[2]", problem=".tx: a closure; use like:")), "x: .tx: a closure"),
        (call(argument("x", "f32[2]"), k=b"a"), "the static argument k is"),
        (call(argument("x", "f32[2]"), k=float("nan")), "the static argument k is"),
        (Call([argument("x", tree=None)]), "x: its tree is unknown"),
        (Call([argument("x", "f32[2]")], more={"problem": "it has a tracer"}), "it has a tracer"),
        (
            Call([argument("x", "f32[2]")], more={"config": {"x64": True}}),
            "config: a config name begins",
        ),
        (Call([argument("0", "f32[2]")]), "args.0: '0' is not a Python identifier"),
    ],
)
def test_what_cannot_be_expressed_is_a_comment(bad: Call, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "aot.yaml"
    found = recording({"m:good": [call(argument("x", "f32[2]"))], "m:bad": [bad]})
    proposal = update_manifest(found, path)
    assert [*functions(proposal)] == ["good"]
    assert f"# bad is not compiled: {reason}" in proposal.text
    assert "  # bad:\n  #   call: m:bad\n" in proposal.text
    write(proposal)
    assert not update_manifest(found, path).is_change


def test_options() -> None:
    tree = ["dict", ["b", "w"], "*", "*"]
    params = argument("params", "f32[4]", "f32[4,4]", tree=tree, shardings=(None, [None, "model"]))
    x = argument("x", "f32[8,4]", shardings=(["data"],))
    function = RecordedFunction(
        "m:f",
        positional=("params", "x"),
        donate=("x", "gone"),
        wrap="nnx.jit",
        options={"keep_unused": True, "out_shardings": ["data"], "compiler_options": {"a": 1}},
    )
    more = {"mesh": {"data": 2, "model": 2}, "config": {"jax_enable_x64": True}, "devices": 4}
    text = proposed(recording({}, (function, [Call([params, x], more=more)]))).text
    assert text.endswith(
        """\
    wrap: nnx.jit
    donate: [x]
    mesh: {data: 2, model: 2}
    in_shardings: {params: {w: [null, model]}, x: [data]}
    config: {jax_enable_x64: true}
    keep_unused: true
    out_shardings: [data]
    compiler_options: {a: 1}
"""
    )


def test_a_platform_that_needs_more_than_its_name_is_a_comment() -> None:
    x = argument("x", "f32[2]")
    calls = [Call([x], more={"platform": "cuda"}), Call([x], more={"platform": "cpu"})]
    found = proposed(recording({"m:f": calls}))
    assert "# ran on cuda: 'cuda' needs to know which one" in found.text
    assert "targets: [cpu]\n" in found.text
    assert len(functions(found)["f"].rows) == 1


def test_rare_signatures_are_left_out() -> None:
    calls = [call(argument("x", f"f32[{n}]"), times=n) for n in (1, 2, 50)]
    found = proposed(recording({"m:f": calls}), minimum_calls=3)
    assert functions(found)["f"].positional["x"].shape == (50,)  # type: ignore[union-attr]
    assert found.lines[1] == ("left out: 3 calls of 2 signatures with less than 3 calls each")


def test_another_version_of_a_function_is_the_same_function() -> None:
    old, new = (RecordedFunction("m:f", positional=("x",), version=v) for v in ("1", "2"))
    found = proposed(recording({}, (old, sizes("1,4")), (new, sizes("1,4", "2,4"))))
    assert [*functions(found)] == ["f"]


def test_the_package_is_that_of_the_project(tmp_path: Path) -> None:
    found = recording({"lib.m:f": sizes("2")})
    assert "package: lib\n" in update_manifest(found, tmp_path / "aot.yaml").text
    (tmp_path / "src/my_app").mkdir(parents=True)
    (tmp_path / "src/my_app/__init__.py").touch()
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "My-App"\n')
    assert "package: my_app\n" in update_manifest(found, tmp_path / "aot.yaml").text
    options = ProposalOptions(package="other")
    assert "package: other\n" in update_manifest(found, tmp_path / "aot.yaml", options).text


@pytest.mark.parametrize("name", ["yes", "no", "on", "off", "null", "true", "TODO", "y"])
def test_names_that_yaml_reads_as_something_else(name: str, tmp_path: Path) -> None:
    path = tmp_path / "aot.yaml"
    calls = [call(argument(name, f"f32[{n},4]"), **{f"{name}_": name}) for n in (1, 2)]
    found = recording({f"m:{name}": calls, f"m:{name}.{name}": calls})
    proposal = update_manifest(found, path)
    assert {each.call for each in functions(proposal).values()} == {f"m:{name}", f"m:{name}.{name}"}
    write(proposal)
    assert not update_manifest(found, path).is_change
    path.write_text("version: 1\npackage: m\nfunctions: {g: {call: 'm:g'}}\n")
    assert len(functions(update_manifest(found, path))) == 3


def test_a_static_object_has_its_name() -> None:
    found = recording({"m:f": [call(argument("x", "f32[]"), k=Color.RED)], "m:g": [call()]})
    told = f"the static argument k is {__name__}:Color.RED, an object that YAML cannot write; "
    assert f"  {told}let `call` name a functools.partial that has it" in proposed(found).lines


class Color(enum.Enum):
    RED = 1


def test_a_file_that_was_changed_meanwhile_stays(tmp_path: Path) -> None:
    path = tmp_path / "aot.yaml"
    proposal = update_manifest(recording({"m:f": sizes("2")}), path)
    path.write_text("mine")
    with pytest.raises(ProjectError, match="changed meanwhile"):
        write(proposal)
    assert path.read_text() == "mine"


# --- whatever is recorded -------------------------------------------------------------------------

SIZES = st.integers(1, 3)
AVALS = st.one_of(
    st.builds("f32[{},{}]".format, SIZES, SIZES),
    st.builds("i32[{}]".format, SIZES),
    st.sampled_from(["~f32[]", "key<fry>[]"]),
)
TREES = [["list", "*", "*"], ["dict", ["a", "shape"], "*", "*"]]
ARGUMENTS = st.one_of(
    st.builds(lambda aval: ("*", (aval,)), AVALS),
    st.builds(lambda tree, *avals: (tree, avals), st.sampled_from(TREES), AVALS, AVALS),
    st.just((["tuple"], ())),
)
STATICS = st.sampled_from([1, 1.0, True, None, "no", (1, ("a",)), -0.5, float("inf")])
CALLS = st.lists(st.tuples(ARGUMENTS, ARGUMENTS, STATICS, STATICS), min_size=1, max_size=8)


def signatures_of(function: Function) -> int:
    statics = [len(values) for values in function.static.values()]
    return len(function.rows) * statics[0] * statics[1]


@settings(max_examples=60)
@given(CALLS, st.integers(0, 3))
def test_all_calls_are_in_the_manifest_and_no_others(calls: list[Any], most: int) -> None:
    made = [
        call(argument("x", *x[1], tree=x[0]), argument("y", *y[1], tree=y[0]), k=k, n=n)
        for x, y, k, n in calls
    ]
    found = recording({"m:f": made})
    proposal = proposed(found, max_buckets=most + 4)
    read = parse_manifest(proposal.text).functions
    # The proposal itself proves that each call is covered; here, that nothing else is compiled.
    assert sum(map(signatures_of, read.values())) == len(found.calls)
    assert "# f is not" not in proposal.text
    assert canonical_json(proposal.to_json())
