"""What several traces know of a function's static data becomes one, in any order."""

from __future__ import annotations

from dataclasses import replace

from support.records import make_function

from aotbuild.build.assemble import join_functions


def test_references_of_all_signatures() -> None:
    one, other = ("x.fn", (0, 0), 1, "p.m:init"), ("y.fn", (0, 1), None, "p.m:init")
    traces = [replace(make_function(), references=r) for r in ((other,), (one, other), ())]
    (joined,) = join_functions(traces)
    assert joined.references == (one, other)


def test_what_each_signature_donates() -> None:
    traces = [replace(make_function(), donate=names) for names in ((), ("x", "y"), ("y",))]
    (joined,) = join_functions(traces)
    assert joined.donate == ("x", "y")
