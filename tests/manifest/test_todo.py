"""`TODO` in a manifest: refused once for each place, with what to write there."""

from __future__ import annotations

import pytest
from support.manifests import refused, refused_option, whole

from aotbuild.manifest import parse_manifest

SPEC = 'TODO is left here; write its spec, such as f32[8,128] or {like: "module:attr"}'


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ("static: {c: TODO}", "static.c: the values that calls pass, such as [true, false]"),
        ("static: {c: [1, TODO]}", "static.c.1: the values that calls pass, such as [true, false]"),
        ("mesh: {data: TODO}", "mesh.data: the number of devices along this axis, such as 2"),
        ("donate: [TODO]", 'donate.0: the value, or "TODO" in quotes for the text'),
        ("dims: TODO", "dims: the sizes of each dim, such as {batch: [1, 8]}"),
    ],
)
def test_an_option(options: str, problem: str) -> None:
    place, _, wanted = problem.partition(": ")
    assert refused_option(options) == [f"{place}: TODO is left here; write {wanted}"]


def test_each_place_has_one_message() -> None:
    entry = "call: m:f, args: [x: TODO, y: 'f32[b,TODO]', z: 'TODO[b]'], kwargs: {k: TODO}, "
    found = refused(whole(entry=entry + "dims: {b: TODO, c: [1]}, donate: [x]"))
    assert found == [
        f"functions.f.args.0.x: {SPEC}",
        "functions.f.args.y: TODO is left here; write a size or the name of a dim: 'f32[b,TODO]'",
        "functions.f.args.z: TODO is left here; write the dtype, such as f32: 'TODO[b]'",
        f"functions.f.kwargs.k: {SPEC}",
        "functions.f.dims.b: TODO is left here; write the sizes of this dim, such as [1, 8]",
    ]


def test_arguments_that_nobody_knows() -> None:
    found = refused(whole(entry="call: m:f, args: TODO, donate: [x]"))
    wanted = "the arguments in order, each as - name: spec"
    assert found == [f"functions.f.args: TODO is left here; write {wanted}"]


def test_the_text_in_quotes_is_a_text() -> None:
    entry = "call: m:f, args: [x: 'f32[4]'], static: {mode: ['TODO']}"
    assert parse_manifest(whole(entry=entry)).functions["f"].static == {"mode": ("TODO",)}
