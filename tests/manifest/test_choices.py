"""`{dim: variant, specs: […]}`: a dim that selects one of several specs."""

from __future__ import annotations

import pytest

from aotbuild.errors import ManifestError
from aotbuild.manifest import (
    ChoiceSpec,
    DictSpec,
    Function,
    LeafSpec,
    NoneSpec,
    bind_values,
    parse_manifest,
)

WEAK = '{dim: variant, specs: ["f32[batch]", "~f32[]", null]}'
DIMS = "[{variant: 0, batch: 8}, {variant: 1, batch: 8}, {variant: 2, batch: 8}]"


def function(spec: str, dims: str = DIMS, more: str = "", trees: str = "") -> Function:
    text = (
        "version: 1\npackage: p\ntargets: [cpu, portable]\n"
        f"functions:\n  f:\n    call: m:f\n    args: [x: {spec}]\n    dims: {dims}\n{more}{trees}"
    )
    return parse_manifest(text).functions["f"]


def test_a_row_selects_a_spec_and_gives_it_its_dims() -> None:
    spec = function(WEAK).positional["x"]
    assert isinstance(spec, ChoiceSpec)
    assert bind_values(spec, {"variant": 0, "batch": 8}) == LeafSpec((8,), "float32")
    assert bind_values(spec, {"variant": 1}) == LeafSpec((), "float32", weak_type=True)
    assert bind_values(spec, {"variant": 2}) == NoneSpec()
    assert bind_values(spec, {"batch": 8}) == spec


def test_it_may_stand_inside_other_specs_and_hold_them() -> None:
    inner = '{dim: variant, specs: ["i32[]", {tree: t}]}'
    trees = "trees:\n  t: f32[2]\n"
    found = function(f'{{a: [{inner}], b: "f32[]"}}', "{variant: [0, 1]}", trees=trees)
    spec = found.positional["x"]
    assert str(bind_values(spec, {"variant": 1})).count("shape=(2,)") == 1


def test_a_dict_pytree_with_these_keys_has_a_form() -> None:
    spec = function('{dict: {dim: "f32[]", specs: "f32[variant]"}}', "{variant: [3]}")
    assert isinstance(spec.positional["x"], DictSpec)


@pytest.mark.parametrize(
    ("spec", "dims", "more", "message"),
    [
        (WEAK, "{variant: [0, 3], batch: [1]}", "", "expected 0 to 2, found 3"),
        (WEAK, "[{variant: 5, batch: 1}]", "", "selects a spec: expected 0 to 2, found 5"),
        ('{dim: v, specs: ["f32[]"]}', "{variant: [0]}", "", "unknown dim 'v'"),
        ("{dim: variant, specs: []}", "{variant: [0]}", "", "expected a list of specs"),
        ('{dim: variant, specs: "f32[2]"}', "{variant: [0]}", "", "is written {dict: {…}}"),
        ('{dim: "f32[]", specs: [null]}', "{variant: [0]}", "", "expected the name of a dim"),
        (WEAK, "{variant: [0], batch: [1]}", "    pad: {variant: 0}\n", "neither padded nor"),
        (
            WEAK,
            "{variant: [0], batch: [1]}",
            "    export: {dims: {variant: v}}\n",
            "neither padded nor symbolic",
        ),
    ],
)
def test_what_is_wrong_is_said(spec: str, dims: str, more: str, message: str) -> None:
    with pytest.raises(ManifestError) as caught:
        function(spec, dims, more)
    assert message in str(caught.value)
