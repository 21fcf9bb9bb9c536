"""How a function is called: its name, call, arguments, dims and static values."""

from __future__ import annotations

import pytest
from support.manifests import function, manifest, refused, refused_option, whole

from aotbuild.errors import ManifestError


class TestFunctionNames:
    @pytest.mark.parametrize(
        ("name", "message"),
        [
            ("class", "'class' is not a Python identifier in ASCII"),
            ("_f", "'_f' begins with an underscore; choose a public name"),
            ("preload", "'preload' is a name of the Library itself; choose another one"),
            ('"on"', "'on' is a name of the Library itself; choose another one"),
        ],
    )
    def test_refused(self, name: str, message: str) -> None:
        found = refused(whole().replace("  f:", f"  {name}:"))
        assert [line.partition(": ")[2] for line in found] == [message]

    def test_number(self) -> None:
        found = refused(whole().replace("  f:", "  1:"))
        assert found[0].startswith("functions: expected a name, found '1'")

    def test_none(self) -> None:
        assert refused("version: 1\npackage: p\nfunctions: {}\n") == [
            "functions: expected at least one entry, found an empty map"
        ]

    def test_not_a_map(self) -> None:
        assert refused("version: 1\npackage: p\nfunctions: {f: m:f}\n") == [
            "functions.f: expected a map, found the text 'm:f'"
        ]


class TestCall:
    def test_method(self) -> None:
        assert manifest(entry="call: 'a.b:C.f'").functions["f"].call == "a.b:C.f"

    def test_dot(self) -> None:
        assert refused(whole(entry="call: a.b.f")) == [
            "functions.f.call: expected module:qualname, found 'a.b.f' (did you mean 'a.b:f'?)"
        ]

    @pytest.mark.parametrize("call", ["f", "m:", ":f", "m:f()", "m:<locals>.f", "m:class", "m:f:g"])
    def test_refused(self, call: str) -> None:
        assert refused(whole(entry=f'call: "{call}"'))[0].startswith(
            "functions.f.call: expected module:qualname, found "
        )

    def test_missing_and_unknown(self) -> None:
        assert refused(whole(entry="cal: m:f")) == [
            "functions.f: the key 'call' is missing (Where the function is: module:qualname)",
            "functions.f: unknown key 'cal' (did you mean 'call'?)",
        ]


class TestArguments:
    @pytest.mark.parametrize(
        ("entry", "message"),
        [
            ("args: [{x: 'f32[]', y: 'f32[]'}]", ("args.0: expected a map of one key, name: spec, "
             "found 2 keys")),
            ("args: ['f32[]']", "args.0: expected a map, found the text 'f32[]'"),
            ("args: {x: 'f32[]'}", "args: expected a list, found a map"),
            ("args: [x: 'f32[]', x: 'f32[]']", "args.1: the argument 'x' is listed twice"),
            ("args: [x: 'f32[]'], kwargs: {x: 'f32[]'}", ("kwargs: 'x' is listed under args "
             "already")),
            ("kwargs: {a b: 'f32[]'}", "kwargs: 'a b' is not a Python identifier in ASCII"),
        ],
    )  # fmt: skip
    def test_refused(self, entry: str, message: str) -> None:
        assert refused(whole(entry=f"call: m:f, {entry}")) == [f"functions.f.{message}"]

    def test_a_refused_one_hides_nothing_of_the_others(self) -> None:
        args = "[{3: 'f32[]'}, {x: [1, 'f32[n]']}], kwargs: {k: 'f32[m]', a b: 'f32[]'}"
        assert refused(whole(entry=f"call: m:f, args: {args}")) == [
            "functions.f.args.0: expected a name, found '3'; put it in quotes if it is one: \"3\"",
            "functions.f.args.x.0: expected a spec such as 'f32[8,128]', found the number 1",
            "functions.f.args.x.1: unknown dim 'n'; declare it under dims:",
            "functions.f.kwargs.k: unknown dim 'm'; declare it under dims:",
            "functions.f.kwargs: 'a b' is not a Python identifier in ASCII",
        ]


class TestDims:
    ARGS = "call: m:f, args: [x: 'f32[a, b]']"

    def test_product(self) -> None:
        found = manifest(entry=f"{self.ARGS}, dims: {{b: [1, 2], a: 3}}").functions["f"]
        assert found.rows == ((("b", 1), ("a", 3)), (("b", 2), ("a", 3)))

    @pytest.mark.parametrize("sizes", ["1..3", "[1, 2..3]", "['1..2', 3]"])
    def test_ranges(self, sizes: str) -> None:
        found = manifest(entry=f"{self.ARGS}, dims: {{a: {sizes}, b: 4}}").functions["f"]
        assert found.rows == tuple((("a", size), ("b", 4)) for size in (1, 2, 3))

    def test_rows(self) -> None:
        found = manifest(entry=f"{self.ARGS}, dims: [{{a: 1, b: 2}}, {{b: 4, a: 3}}]")
        assert found.functions["f"].rows == ((("a", 1), ("b", 2)), (("a", 3), ("b", 4)))

    @pytest.mark.parametrize(
        ("dims", "message"),
        [
            ("{a: 1, c: 2}", "args.x: unknown dim 'b'; known: a, c"),
            ("{a: [], b: 1}", "dims.a: expected at least one size, found an empty list"),
            ("{a: [2, 2], b: 1}", "dims.a: the size 2 is listed twice"),
            ("{a: x, b: 1}", "dims.a: expected a whole number, found the text 'x'"),
            ("{a: 8..1, b: 1}", ("dims.a: expected a range from low to high, at most 100,000 "
             "sizes, found 8..1")),
            ("{a: [1..3, 2], b: 1}", "dims.a: the size 2 is listed twice"),
            ("{a: [1..3, x], b: 1}", ("dims.a: expected sizes, and ranges of them such as 1..8, "
             "found 'x'")),
            ("[{a: 1, b: 2}, {a: 1}]", ("dims.1: all rows have the same dims; expected a, b, "
             "found a")),
            ("[{a: 1, b: 2}, {b: 2, a: 1}]", "dims.1: this row is listed twice"),
            ("3", "dims: expected a map, found the number 3"),
            ("{a: 1, b: 1, 'c d': 1}", "dims: 'c d' is not a Python identifier in ASCII"),
        ],
    )  # fmt: skip
    def test_refused(self, dims: str, message: str) -> None:
        found = refused(whole(entry=f"{self.ARGS}, dims: {dims}"))
        assert f"functions.f.{message}" in found

    def test_unused(self) -> None:
        with pytest.raises(ManifestError) as caught:
            function("dims: {a: 1}")
        assert caught.value.problems[0].message == (
            "the dim 'a' is used in no spec of args or kwargs; remove it"
        )


class TestStatic:
    def test_values(self) -> None:
        found = function("static: {flag: [true, 1, 1.0, null], 2: relu, t: [[1, [a]]]}").static
        assert repr(found) == repr(
            {"flag": (True, 1, 1.0, None), 2: ("relu",), "t": ((1, ("a",)),)}
        )

    @pytest.mark.parametrize(
        ("static", "message"),
        [
            ("{x: 1}", ("static: 'x' is an argument with a spec already; static or traced, "
             "not both")),
            ("{3: 1}", "static: position 3 is out of range; 3 positional arguments make it 0 to 2"),
            ("{s: []}", "static.s: expected at least one value, found an empty list"),
            ("{s: {}}", ("static.s: expected a list of values, found an empty map; to give an "
             "object, let `call` name a functools.partial that has it")),
            ("{s: [1, 1]}", "static.s.1: the value '1' is listed twice"),
            ("{s: .nan}", "static.s: NaN equals no value, so no call could match it"),
            ("{s: [{a: 1}]}", ("static.s.0: a static value is hashable: null, a boolean, number, "
             "text, or a list of such; found a map")),
            ("{a-b: 1}", "static: 'a-b' is not a Python identifier in ASCII"),
        ],
    )  # fmt: skip
    def test_refused(self, static: str, message: str) -> None:
        assert refused_option(f"static: {static}") == [message]

    def test_positions_fill_gaps(self) -> None:
        assert [*function("static: {0: 1, 3: 2}").static] == [0, 3]
