"""`signatures:`: whole signatures of one function, instead of args, kwargs, dims and static."""

from __future__ import annotations

import pytest
from support.manifests import refused

from aotbuild.manifest import Function, parse_manifest

HEAD = "version: 1\npackage: p\nfunctions:\n  f:\n    call: m:f\n"


def text(*signatures: str, more: str = "") -> str:
    lines = "".join(f"      - {{{each}}}\n" for each in signatures)
    return f"{HEAD}{more}    signatures:\n{lines}"


def function(*signatures: str, more: str = "") -> Function:
    return parse_manifest(text(*signatures, more=more)).functions["f"]


def test_each_has_its_own_arguments_dims_and_static_values() -> None:
    found = function(
        "args: [x: 'f32[n]'], dims: {n: [1, 8]}, static: {k: [2]}",
        "args: [x: ['f32[4]', 'i32[]'], {mask: 'bool[4]'}], kwargs: {scale: 'f32[]'}",
    )
    first, second = found.each_signature
    assert [dict(row) for row in first.rows] == [{"n": 1}, {"n": 8}]
    assert (first.static, second.static) == ({"k": (2,)}, {})
    assert list(second.positional) == ["x", "mask"]
    assert found.parameters.args == ("x", "mask")
    assert found.parameters.kwargs == ("scale",)
    assert found.parameters.statics == ("k",)
    assert found.parameters.optional == ("mask", "scale")


def test_one_function_without_them_is_its_own_signature() -> None:
    found = parse_manifest(f"{HEAD}    args: [x: 'f32[4]']\n    signatures: []\n").functions["f"]
    assert found.each_signature == (found,)
    assert found.parameters.optional == ()


def test_it_survives_json() -> None:
    found = function("args: [x: 'f32[4]'], static: {k: [[1, 2.5]]}", "args: [x: ['f32[4]']]")
    assert Function.model_validate_json(found.model_dump_json()) == found


def test_options_of_the_function_name_arguments_of_any() -> None:
    found = function(
        "args: [x: 'f32[4]']", "args: [x: 'f32[4]', {y: 'f32[4]'}]", more="    donate: [y]\n"
    )
    assert found.donate == ("y",)


@pytest.mark.parametrize(
    ("signatures", "more", "problems"),
    [
        (
            ["args: [x: 'f32[4]']"],
            "    args: [x: 'f32[8]']\n",
            ["args: signatures: takes the place of this; move it into each of the signatures"],
        ),
        (
            ["args: [x: 'f32[4]']", "args: [y: 'f32[4]']"],
            "",
            ["signatures.1.args: the positional arguments of all signatures are the first ones"],
        ),
        (
            ["args: [x: 'f32[4]']", "kwargs: {x: 'f32[4]'}"],
            "",
            ["signatures.1.kwargs: 'x' is under args in signatures.0; list it there here, too"],
        ),
        (
            ["args: [x: 'f32[4]']", "args: [x: 'f32[n]'], dims: {m: [1]}"],
            "",
            [
                "signatures.1.dims: the dim 'm' is used in no spec of args or kwargs; remove it",
                "signatures.1.args.x: unknown dim 'n'; known: m",
            ],
        ),
        (
            ["args: [x: 'f32[4]'], dims: [1]", "args: {x: 3}", "args: [x: 'f99[4]']"],
            "",
            [
                "signatures.0.dims.0: expected a map, found the number 1",
                "signatures.1.args: expected a list, found a map",
                "signatures.2.args.x: unknown dtype 'f99'",
            ],
        ),
        (["args: [x: 'f32[4]'], donate: [x]"], "", ["signatures.0: unknown key 'donate'"]),
    ],
)
def test_problems(signatures: list[str], more: str, problems: list[str]) -> None:
    found = [line.removeprefix("functions.f.") for line in refused(text(*signatures, more=more))]
    assert len(found) == len(problems), found
    for line, expected in zip(sorted(found), sorted(problems), strict=True):
        assert line.startswith(expected), line
