"""`overload_of`: which entries may serve the calls of another."""

from __future__ import annotations

import pytest

from aotbuild.errors import ManifestError
from aotbuild.manifest import Manifest, parse_manifest

HEAD = "version: 1\npackage: p\nfunctions:\n  f: {call: 'm:f', args: [x: 'f32[2]']}\n"
AGREE = "must be that of f, since calls of f run this entry:"


def parsed(*entries: str) -> Manifest:
    return parse_manifest(HEAD + "".join(f"  {entry}\n" for entry in entries))


def test_an_overload() -> None:
    found = parsed("g: {call: 'm:f', overload_of: f, args: [x: 'f32[3]']}")
    assert found.functions["g"].overload_of == "f"
    assert found.functions["f"].overload_of is None


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("call: 'm:f', overload_of: ff", "no function 'ff' (did you mean 'f'?)"),
        ("call: 'm:f', overload_of: g", "an entry is no overload of itself"),
        (
            "call: 'm:other', overload_of: f",
            f"call {AGREE} expected 'm:f', found 'm:other'",
        ),
        (
            "call: 'm:f', overload_of: f, config: {jax_enable_x64: true}",
            f"config {AGREE} expected {{}}, found {{'jax_enable_x64': True}}",
        ),
        ("call: 'm:f', overload_of: [f]", "expected text, found a list"),
    ],
)
def test_refused(entry: str, message: str) -> None:
    with pytest.raises(ManifestError) as caught:
        parsed(f"g: {{{entry}, args: [x: 'f32[3]']}}")
    (problem,) = caught.value.problems
    assert problem.path == "functions.g.overload_of"
    assert problem.message == message


def test_an_overload_of_an_overload() -> None:
    with pytest.raises(ManifestError, match="g is an overload itself; name f"):
        parsed(
            "g: {call: 'm:f', overload_of: f, args: [x: 'f32[3]']}",
            "h: {call: 'm:f', overload_of: g, args: [x: 'f32[4]']}",
        )


def test_an_array_that_is_static_in_the_first_entry() -> None:
    head = HEAD.replace("'f32[2]']", "'f32[2]'], static: {k: [1]}")
    entry = "  g: {call: 'm:f', overload_of: f, args: [x: 'f32[2]', k: 'i32[]']}\n"
    with pytest.raises(ManifestError) as caught:
        parse_manifest(head + entry)
    (problem,) = caught.value.problems
    assert problem.message == ("k is static in f, and an array here: make f an overload of g")


def test_settings_of_the_defaults_are_those_of_both() -> None:
    text = HEAD.replace("functions:", "defaults: {config: {jax_enable_x64: true}}\nfunctions:")
    parse_manifest(text + "  g: {call: 'm:f', overload_of: f, args: [x: 'f32[3]']}\n")
