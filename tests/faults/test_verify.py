"""Lies under fresh digests that `verify` must not pass: calls fail for them, or return too much."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from faults import lies
from faults.lies import Edit
from support.cli import invoke

RAN = 9  # docs/reference/cli.md: a check failed


def calling(**changes: Any) -> Edit:
    return lambda record: record["calling"].update(changes)


def requires(**changes: Any) -> Edit:
    return lambda record: record["requires"].update(changes)


def golden(**changes: Any) -> Edit:
    return lambda record: record["golden"].update(changes)


def statics(*values: Any) -> Edit:
    return lambda record: record["signature"].update(statics=list(values))


def fields(**changes: Any) -> Edit:
    return lambda function: function.update(changes)


def pad(**changes: Any) -> Edit:
    return lambda function: function["pad"].update(changes)


def tree(found: Any) -> Edit:
    return calling(out_tree=found)


def nothing(_: Any) -> None:
    """The record, or the function, is as it was."""


# What reading finds: the function, edits of its record and of itself, and what is said.
READ: dict[str, tuple[str, Edit, Edit, str]] = {
    "results that are never cut": ("rows", nothing, pad(outputs=[[]]), "grows, and is not cut"),
    "another axis that is cut": ("rows", nothing, pad(outputs=[[[1, 0]]]), "is not n"),
    "an axis that is not there": ("rows", nothing, pad(outputs=[[[2, 0]]]), "is not n"),
    "no result to cut": ("rows", nothing, pad(outputs=[]), "0 of 1 results"),
    "two results to cut": ("rows", nothing, pad(outputs=[[[0, 0]]] * 2), "2 of 1 results"),
    "another axis that is padded": ("rows", nothing, pad(leaves=[[[1, 0]]]), "the sizes [2]"),
    "a size that was not compiled": (
        "rows",
        nothing,
        pad(buckets=[[2], [4], [8]]),
        "the sizes [8]",
    ),
    "only sizes that were not compiled": ("rows", nothing, pad(buckets=[[3]]), "the sizes [3]"),
    "a relative tolerance of 1e299": ("double", golden(rtol=1e299), nothing, "zeros would pass"),
    "a relative tolerance of 1": ("double", golden(rtol=1.0), nothing, "zeros would pass"),
    "a tolerance beyond numbers": ("double", golden(atol=1e301), nothing, "expected a tolerance"),
    "a negative tolerance": ("double", golden(rtol=-1.0), nothing, "expected a tolerance"),
    "f64 without x64": ("wide", requires(x64=False), nothing, "it takes f64[4]"),
    "any jaxlib": ("double", requires(jaxlib=None), nothing, "requires.jaxlib"),
    "an argument of another name": ("double", nothing, fields(dynamic=["y"]), "dynamic"),
    "no argument": ("double", nothing, fields(dynamic=[]), "it has 1 arguments"),
    "one argument more": ("double", nothing, fields(keywords=["y"]), "the arrays x, y"),
    "one argument less": ("add", nothing, fields(dynamic=["x"]), "it has 2 arguments"),
    "a name twice": ("double", nothing, fields(keywords=["x"]), "have a name twice"),
    "a static array": ("double", nothing, fields(statics=[["x"]]), "have a name twice"),
    "a static value that no call has": ("double", statics(["k", 1]), nothing, "['k'] are not"),
    "a static value that calls lack": ("double", nothing, fields(statics=[["k"]]), "[] are not"),
    "donation of nothing": ("double", nothing, fields(donate=["z"]), "donate"),
    "donation that nobody is told of": (
        "double",
        calling(donated=[0]),
        nothing,
        "x is not donated",
    ),
    "None with children": (
        "both",
        tree(["node", "types:NoneType", None, "*", "*"]),
        nothing,
        "node",
    ),
    "a dict with a tuple": (
        "both",
        tree(["node", "builtins:dict", {"tuple": ["a"]}, "*", "*"]),
        nothing,
        "a container",
    ),
    "more children than keywords": (
        "both",
        tree(["like_input", [1], "*", "*"]),
        nothing,
        "children",
    ),
    "keys in another order": ("both", tree(["dict", ["up", "down"], "*", "*"]), nothing, "sort"),
    "keys without an order": ("both", tree(["dict", [None, "a"], "*", "*"]), nothing, "sort"),
    "arrays in another order than parameters": (
        "add",
        nothing,
        fields(positional=["y", "x"]),
        "the order of positional",
    ),
    "a wrap of the future": ("double", nothing, fields(wrap="os.system"), "'os.system' is not"),
    "a relative module": (
        "both",
        tree(["node", ".x:Y", None, "*", "*"]),
        nothing,
        "name of a type",
    ),
}


@pytest.mark.cause(9)
@pytest.mark.parametrize("lie", READ)
def test_what_reading_finds(lie: str, honest: Path, tmp_path: Path) -> None:
    name, record, function, says = READ[lie]
    place = lies.edited(honest, tmp_path, name, record, function=function)
    ended = invoke("verify", place, "--no-run")
    assert ended.exit_code == RAN, ended.output
    assert says in ended.output


@pytest.mark.parametrize("name", ["close", "__class__", "_f", "a-b"])
def test_a_name_that_no_library_has(name: str, honest: Path, tmp_path: Path) -> None:
    ended = invoke("verify", lies.edited(honest, tmp_path, "double", renamed=name), "--no-run")
    assert ended.exit_code == RAN, ended.output
    assert "no library has a function of this name" in ended.output


def test_a_policy_that_is_none(honest: Path, tmp_path: Path) -> None:
    place = lies.edited(honest, tmp_path, "double", header=fields(fallback="evil"))
    ended = invoke("verify", place, "--no-run")
    assert ended.exit_code == RAN, ended.output
    assert "found 'evil'" in ended.output


@pytest.mark.parametrize("name", ["both", "rows", "wide"])
def test_the_truth_passes(name: str, honest: Path, tmp_path: Path) -> None:
    ended = invoke("verify", lies.edited(honest, tmp_path, name), "--no-run")
    assert ended.exit_code == 0, ended.output


# What loading and calling finds: a function, the edit of its record, and what is said.
RUN: dict[str, tuple[str, Edit, str]] = {
    "absolute_tolerance": ("double", golden(atol=1e299), "zeros would pass"),
    "absolute_tolerance_of_1000": ("both", golden(atol=1000.0), "zeros would pass"),
    "larger_result": ("narrow", calling(outputs=["bf16[4096]"]), "calling.outputs[0]"),
    "no_LAPACK": ("factor", requires(custom_calls=[]), "requires.custom_calls"),
    "other_argument": ("first", calling(kept=[1]), "signature.leaves[1]"),
    "no_constant": (
        "shifted",
        lambda r: r["calling"].update(constants=[], kept=[0], constant_names=[]),
        "calling.kept",
    ),
    "no_keys": ("both", tree(["node", "collections:defaultdict", None, "*", "*"]), "TypeError"),
    "one_key": (
        "both",
        tree(["node", "collections:OrderedDict", {"tuple": ["a"]}, "*", "*"]),
        "length",
    ),
    "no_function": ("both", tree(["node", "jax.tree_util:Partial", None, "*", "*"]), "Partial"),
    "no_shape": (
        "both",
        tree(["node", "jax.experimental.sparse:BCOO", None, "*", "*"]),
        "cannot be made",
    ),
    "not_registered": ("both", tree(["node", "fractions:Fraction", None, "*", "*"]), "Fraction"),
    "not_a_type": ("both", tree(["node", "jax:jit", None, "*", "*"]), "which is not a type"),
    "not_there": ("both", tree(["node", "jax:Absent", None, "*", "*"]), "Absent"),
    "no_namedtuple": ("both", tree(["namedtuple", "fractions:Fraction", "*", "*"]), "namedtuple"),
    "not_allowed": ("both", tree(["node", "subprocess:Popen", None, "*", "*"]), "subprocess"),
}


@pytest.fixture(scope="module")
def outcomes(honest: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Any]]:
    """What `verify` says of one package with all of these lies, by function."""
    functions = {lie: (name, edit, nothing) for lie, (name, edit, _) in RUN.items()}
    functions |= {
        "truth": ("both", nothing, nothing),
        "elsewhere": ("both", tree(["node", "nosuch:Type", None, "*", "*"]), nothing),
    }
    place = lies.together(honest, tmp_path_factory.mktemp("lies"), functions)
    ended = invoke("verify", place, "--json")
    assert ended.exit_code == RAN, ended.output
    found: dict[str, list[Any]] = {lie: [] for lie in functions}
    for outcome in json.loads(ended.stdout)["checks"]:
        name = outcome["subject"].partition(" cpu:")[0]
        if name in found:
            found[name].append(outcome)
    return found


@pytest.mark.process
@pytest.mark.cause(9)
@pytest.mark.parametrize("lie", RUN)
def test_what_running_finds(lie: str, outcomes: dict[str, list[Any]]) -> None:
    *_, says = RUN[lie]
    failed = [outcome for outcome in outcomes[lie] if outcome["status"] == "FAIL"]
    assert failed, outcomes[lie]
    assert says in "\n".join(failed[0]["reasons"])


@pytest.mark.process
@pytest.mark.cause(1)
def test_the_truth_passes_beside_them(outcomes: dict[str, list[Any]]) -> None:
    assert [outcome["status"] for outcome in outcomes["truth"]] == ["PASS", "PASS"]


@pytest.mark.process
@pytest.mark.cause(1)
def test_a_type_that_is_not_installed_is_no_lie(outcomes: dict[str, list[Any]]) -> None:
    loaded, called = outcomes["elsewhere"]
    assert loaded["status"] == called["status"] == "PASS"
    assert "its result was not made, which needs nosuch" in loaded["reasons"][0]
