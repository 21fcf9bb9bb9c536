"""Specs from annotations, comments and docstrings."""

from __future__ import annotations

import ast

import pytest

from aotbuild.record.source import ModuleSource
from aotbuild.record.source_avals import dims_of, of_annotation, of_comment, of_docstring

MODULE = """
import jaxtyping as jt
from jaxtyping import Array, Float
Batch = Float[Array, "batch 3"]
Again = Batch
"""


def annotated(text: str) -> str | None:
    node = ast.parse(text, mode="eval").body
    found = of_annotation(ModuleSource("m", "m.py", MODULE), node)
    return found.spec if found else None


@pytest.mark.parametrize(
    ("annotation", "spec"),
    [
        ('Float[Array, "batch 128"]', "f32[batch,128]"),
        ('Float[jax.Array, ""]', "f32[]"),
        ('jt.Int32[np.ndarray, "b t"]', "i32[b,t]"),
        ('BFloat16[Array, "b"] | None', "bf16[b]"),
        ('Optional[Bool[Array, "b"]]', "bool[b]"),
        ('Float64[Array, "b"]', "f64[b]"),
        ('Key[Array, ""]', "key<fry>[]"),
        ("\"Float[Array, 'n']\"", "f32[n]"),
        ("Annotated[Float[Array, 'n'], 3]", "f32[n]"),
        ('Float[Array, "#batch seq=16 ?n"]', "f32[batch,16,n]"),
        ('Float[Array, "batch-1 _ lambda"]', "f32[TODO,TODO,TODO]"),
        ('Float[Array, "..."]', "TODO"),
        ('Float[Array, "*batch d"]', "TODO"),
        ('Shaped[Array, "b"]', "TODO[b]"),
        ("PRNGKeyArray", "TODO"),
        ("Scalar", "TODO[]"),
        ("Batch", "f32[batch,3]"),
        ("Again", "f32[batch,3]"),
        ('tuple[Float[Array, "b"], Int[Array, ""]]', '{tuple: ["f32[b]", "i32[]"]}'),
        ("float", "~f32[]"),
        ("int | None", "~i32[]"),
        ("bool", "bool[]"),
        ("Array", None),
        ("dict[str, Array]", None),
        ("list[int]", None),
        ("Float[Array, dims]", None),
        ("'not python'", None),
    ],
)
def test_an_annotation(annotation: str, spec: str | None) -> None:
    assert annotated(annotation) == spec


@pytest.mark.parametrize(
    ("comment", "spec"),
    [
        ("f32[batch, 128]", "f32[batch,128]"),
        ("the input, bf16[B,T] on every host", "bf16[B,T]"),
        ("float32[2, 3]", "f32[2,3]"),
        ("~f32[]", "~f32[]"),
        ("key<fry>[]", "key<fry>[]"),
        ("[B, T, D]", "TODO[B,T,D]"),
        ("(B, T)", "TODO[B,T]"),
        ("(n,)", "TODO[n]"),
        ("shape [B, 3].", "TODO[B,3]"),
        ("f32[2*n]", "f32[TODO]"),
        ("f32[..., d]", "TODO"),
        ("(optional)", None),
        ("[0, 1]", None),
        ("(see below, or not)", None),
        ("a[3] of all", None),
        ("noqa: E501", None),
    ],
)
def test_a_comment(comment: str, spec: str | None) -> None:
    found = of_comment(comment)
    assert (found.spec if found else None) == spec


DOCSTRING = """Return something.

Args:
    x: the input, f32[batch, 3].
    tokens (i32[batch, seq]): ids.
    mask: a mask of shape (batch, seq), or None.
    rate: how fast.
    :param w: f32[3]
"""


@pytest.mark.parametrize(
    ("name", "spec"),
    [
        ("x", "f32[batch,3]"),
        ("tokens", "i32[batch,seq]"),
        ("mask", "TODO[batch,seq]"),
        ("w", "f32[3]"),
        ("rate", None),
        ("gone", None),
    ],
)
def test_a_docstring(name: str, spec: str | None) -> None:
    found = of_docstring(DOCSTRING, name)
    assert (found.spec if found else None) == spec


def test_the_dims_of_a_spec() -> None:
    assert dims_of('{tuple: ["f32[b,3]", "TODO[t,b,TODO]"]}') == ["b", "t"]
    assert dims_of('{like: "m:f"}') == []
