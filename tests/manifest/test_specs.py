"""Argument specs: every form, and what is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aotbuild.errors import ManifestError
from aotbuild.manifest import (
    ArgSpec,
    DictSpec,
    Function,
    LeafSpec,
    LikeSpec,
    ListSpec,
    MeshAxes,
    NoneSpec,
    Sharding,
    ShardingLike,
    ShardingTree,
    TupleSpec,
    parse_manifest,
)

TEXT = """\
version: 1
package: p
functions:
  f:
    call: m:f
    args:
      - x: {spec}
      - other: f32[batch]
    dims: {{batch: [1, 8]}}
    static: {{mode: [fast, exact], 0: 1}}
"""


def spec(text: str) -> ArgSpec:
    return parse_manifest(TEXT.format(spec=text)).functions["f"].args[0]["x"]


def refused(text: str) -> list[str]:
    with pytest.raises(ManifestError) as caught:
        parse_manifest(TEXT.format(spec=text))
    return [f"{p.column}: {p.path}: {p.message}" for p in caught.value.problems]


class TestText:
    @pytest.mark.parametrize(
        ("text", "leaf"),
        [
            ("bf16[8,128]", LeafSpec((8, 128), "bfloat16")),
            ("i32[batch, 64]", LeafSpec(("batch", 64), "int32")),
            ("f32[]", LeafSpec((), "float32")),
            ("'~f32[]'", LeafSpec((), "float32", weak_type=True)),
            ("key<fry>[]", LeafSpec((), "key<fry>")),
            ("bool[3]", LeafSpec((3,), "bool")),
            ("f8_e4m3fn[2]", LeafSpec((2,), "float8_e4m3fn")),
            ("float32[0]", LeafSpec((0,), "float32")),
        ],
    )
    def test_read(self, text: str, leaf: LeafSpec) -> None:
        assert spec(text) == leaf

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("f32", ("'f32' is not an aval; expected dtype[dims], for example f32[8,128] or "
             "i32[batch]")),
            ("f32[bacth]", "unknown dim 'bacth' (did you mean 'batch'?)"),
            ("f32[qq]", "unknown dim 'qq'; known: batch"),
            ("f32[2*batch]", "'f32[2*batch]': '2*batch' is neither a size nor the name of a dim"),
            ("i1[2]", ("dtype 'i1': XLA compiles no operation on it; use a wider one: i2, u2, or a "
             "float8 type")),
            ("3", "expected a spec such as 'f32[8,128]', found the number 3"),
        ],
    )  # fmt: skip
    def test_refused(self, text: str, message: str) -> None:
        assert refused(text) == [f"12: functions.f.args.x: {message}"]

    def test_unknown_dtype(self) -> None:
        assert refused("f31[2]")[0].startswith(
            "12: functions.f.args.x: unknown dtype 'f31' (did you mean 'f32'?); known"
        )

    def test_too_long(self) -> None:
        assert "too long" in refused(f"f32[{'1,' * 200}]")[0]


class TestLike:
    def test_read(self) -> None:
        assert spec("{like: 'a.b:c.d'}") == LikeSpec("a.b:c.d")
        assert spec("{like: 'a:b', dims: [batch]}") == LikeSpec("a:b", ("batch",))
        assert spec("{like: 'a:b', static: [mode], like_run: true}") == LikeSpec(
            "a:b", (), ("mode",), run=True
        )

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("{like: a}", "x.like: expected module:qualname, found 'a'"),
            ("{like: 'a:b', dim: [batch]}", ("x: unknown key 'dim' beside 'like' "
             "(did you mean 'dims'?)")),
            ("{like: 'a:b', dims: batch}", "x.dims: expected a list of dim names, such as [batch]"),
            ("{like: 'a:b', dims: [b]}", "x.dims: unknown dim 'b'; known: batch"),
            ("{like: 'a:b', dims: [batch, batch]}", "x.dims: a dim is listed twice"),
            ("{like: 'a:b', static: mode}", ("x.static: expected a list of static argument names, "
             "such as [causal]")),
            ("{like: 'a:b', static: [moed]}", ("x.static: unknown static argument 'moed' "
             "(did you mean 'mode'?)")),
            ("{like: 'a:b', like_run: 1}", ("x.like_run: expected true or false, found the number "
             "1")),
            ("{like: 'a:b', like_rn: true}", ("x: unknown key 'like_rn' beside 'like' "
             "(did you mean 'like_run'?)")),
        ],
    )  # fmt: skip
    def test_refused(self, text: str, message: str) -> None:
        assert [line.partition(": ")[2] for line in refused(text)] == [
            f"functions.f.args.{message}"
        ]


class TestTrees:
    def test_read(self) -> None:
        leaf = LeafSpec((2,), "float32")
        assert spec("['f32[2]', null]") == ListSpec((leaf, NoneSpec()))
        assert spec("{w: 'f32[2]', b: {}}") == DictSpec((("w", leaf), ("b", DictSpec(()))))
        assert spec("{tuple: ['f32[2]']}") == TupleSpec((leaf,))
        assert spec("{dict: {like: 'f32[2]', dict: []}}") == DictSpec(
            (("like", leaf), ("dict", ListSpec(())))
        )

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("{dict: 'f32[2]'}", "x.dict: expected a map of specs, found the text 'f32[2]'"),
            ("{tuple: {}}", "x.tuple: expected a list of specs, found an empty map"),
            ("{tuple: [], a: null}", ("x: 'tuple' must be the only key; a dict pytree with such "
             "keys is written {dict: {…}}")),
            ("{1: 'f32[2]'}", "x: the key of a dict pytree is text, found the number 1; quote it"),
            ("[['f32[2']]", ("x.0.0: 'f32[2' is not an aval; expected dtype[dims], for example "
             "f32[8,128] or i32[batch]")),
        ],
    )  # fmt: skip
    def test_refused(self, text: str, message: str) -> None:
        assert [line.partition(": ")[2] for line in refused(text)] == [
            f"functions.f.args.{message}"
        ]


NAMES = st.sampled_from(["a", "b", "batch", "shape"])
LEAVES = st.builds(
    LeafSpec,
    st.lists(st.integers(0, 99) | NAMES, max_size=3).map(tuple),
    st.sampled_from(["float32", "key<fry>", "int4"]),
    st.booleans(),
)
LIKES = st.builds(
    LikeSpec,
    st.just("a:b"),
    st.lists(NAMES, max_size=2).map(tuple),
    st.lists(NAMES, max_size=2).map(tuple),
    st.booleans(),
    st.lists(st.tuples(NAMES, st.integers(0, 9) | NAMES), max_size=2).map(tuple),
)
SPECS = st.recursive(
    LEAVES | LIKES | st.just(NoneSpec()),
    lambda inner: (
        st.builds(ListSpec, st.lists(inner, max_size=3).map(tuple))
        | st.builds(TupleSpec, st.lists(inner, max_size=3).map(tuple))
        | st.builds(DictSpec, st.lists(st.tuples(NAMES, inner), max_size=3).map(tuple))
    ),
    max_leaves=8,
)
AXES = st.none() | NAMES | st.lists(NAMES, max_size=2).map(tuple)
SHARDINGS: st.SearchStrategy[Sharding] = st.recursive(
    st.none()
    | st.builds(MeshAxes, st.lists(AXES, max_size=3).map(tuple))
    | st.builds(ShardingLike, st.just("m:specs")),
    lambda inner: st.builds(
        ShardingTree, st.lists(st.tuples(NAMES | st.integers(0, 9), inner), max_size=3).map(tuple)
    ),
    max_leaves=6,
)


class TestJson:
    @given(SPECS, SHARDINGS)
    def test_round_trip(self, spec: ArgSpec, sharding: Sharding) -> None:
        given = Function(
            call="m:f", kwargs={"x": spec}, in_shardings={"x": sharding}, out_shardings=sharding
        )
        assert Function.model_validate_json(given.model_dump_json()) == given
        assert Function.model_validate(given.model_dump(mode="json")) == given

    @pytest.mark.parametrize("data", [None, {}, [], {"form": "leaf"}, {"form": "what"}, "f32[]"])
    def test_malformed(self, data: object) -> None:
        with pytest.raises(ValueError, match=r"kwargs\.x"):
            Function.model_validate({"call": "m:f", "kwargs": {"x": data}})
