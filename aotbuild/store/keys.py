"""The store's keys. A key is made of what goes into a compilation, never of what comes out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aotbuild.spec.canonical import canonical_json, sha256_hex


def key_of(inputs: Mapping[str, Any]) -> str:
    """Return the key of a compilation's inputs (plain JSON; bytes by their digests)."""
    return sha256_hex(canonical_json(inputs))
