"""Small manifests as text, and what comes of them."""

from __future__ import annotations

import pytest

from aotbuild.errors import ManifestError
from aotbuild.manifest import Function, Manifest, parse_manifest

ENTRY = "call: m:f, args: [x: 'f32[4]', {y: 'f32[4]'}]"


def whole(extra: str = "", entry: str = ENTRY) -> str:
    """Return a manifest of one function on line 4, and more top-level keys after it."""
    return f"version: 1\npackage: p\nfunctions:\n  f: {{{entry}}}\n{extra}"


def manifest(extra: str = "", entry: str = ENTRY) -> Manifest:
    return parse_manifest(whole(extra, entry))


def function(options: str, extra: str = "") -> Function:
    """Return the function with more options."""
    return manifest(extra, f"{ENTRY}, {options}").functions["f"]


def refused(text: str) -> list[str]:
    """Return the problems without their positions."""
    with pytest.raises(ManifestError) as caught:
        parse_manifest(text)
    return [f"{p.path}: {p.message}" if p.path else p.message for p in caught.value.problems]


def refused_option(options: str, extra: str = "") -> list[str]:
    found = refused(whole(extra, f"{ENTRY}, {options}"))
    return [line.removeprefix("functions.f.") for line in found]
