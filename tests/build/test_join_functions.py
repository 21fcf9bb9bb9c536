"""What several traces know of a function's static data becomes one, in any order."""

from __future__ import annotations

from dataclasses import replace

from support.records import make_function

from aotbuild.build.assemble import join_functions
from aotbuild.format.signature import Function


def test_their_json() -> None:
    function = replace(
        make_function(),
        ignored=(("x.fn", (0, 0), 1), ("y<static>", (0, 1), None)),
        references=(("z.fn", (0, 2), 1, "p.m:init"), ("z<static>", (0, 3), None, "p.m:init")),
    )
    assert Function.from_json(function.to_json()) == function
    optional = {"ignored", "references"}
    assert optional.isdisjoint(make_function().to_json())


def test_references_of_all_signatures() -> None:
    one, other = ("x.fn", (0, 0), 1, "p.m:init"), ("y.fn", (0, 1), None, "p.m:init")
    traces = [replace(make_function(), references=r) for r in ((other,), (one, other), ())]
    (joined,) = join_functions(traces)
    assert joined.references == (one, other)
