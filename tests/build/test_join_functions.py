"""What several traces know of a function's fingerprints becomes one, in any order."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.records import make_function

from aotbuild.build.assemble import join_functions
from aotbuild.format.facts import Facts
from aotbuild.format.signature import Function


def traced(name: str, digest: str, *aliases: tuple[str, str]) -> Function:
    facts = (Facts(digest, "3.11", ((".rate", "0.5"),)),)
    return replace(make_function(name), facts=facts, aliases=aliases)


def test_facts_of_all_signatures_and_aliases_of_all_functions() -> None:
    """A process that traced `f` before `g` knows an alias that another process finds by itself."""
    functions = [
        traced("f", "d1", ("d9", "d1"), ("d8", "d0")),
        traced("f", "d0"),
        traced("g", "d1"),
        traced("h", "d2"),
    ]
    f, g, h = join_functions(functions)
    assert [facts.digest for facts in f.facts] == ["d0", "d1"]
    assert f.aliases == (("d8", "d0"), ("d9", "d1"))
    assert g.aliases == (("d9", "d1"),)
    assert h.aliases == ()
    again = {function.name: function for function in join_functions(functions[::-1])}
    assert again == {"f": f, "g": g, "h": h}


def test_their_json() -> None:
    function = replace(
        traced("f", "d1", ("d9", "d1")),
        ignored=(("x.fn", (0, 0), 1), ("y<static>", (0, 1), None)),
        references=(("z.fn", (0, 2), 1, "p.m:init"), ("z<static>", (0, 3), None, "p.m:init")),
    )
    assert Function.from_json(function.to_json()) == function
    optional = {"facts", "aliases", "ignored", "references"}
    assert optional.isdisjoint(make_function().to_json())


@pytest.mark.parametrize(
    "reference", [[], ["z", [0], 1], ["z", [0], 1, 2], ["z", ["0"], 1, "a:b"], 3]
)
def test_a_reference_is_checked(reference: object) -> None:
    with pytest.raises(ValueError, match=r"not a function|unpack|not whole|text"):
        Function.from_json({**make_function().to_json(), "references": [reference]})


def test_references_of_all_signatures() -> None:
    one, other = ("x.fn", (0, 0), 1, "p.m:init"), ("y.fn", (0, 1), None, "p.m:init")
    traces = [replace(make_function(), references=r) for r in ((other,), (one, other), ())]
    (joined,) = join_functions(traces)
    assert joined.references == (one, other)
