"""The hook's own table in pyproject.toml, checked."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from aotbuild.errors import PlanError

_TABLE = "tool.hatch.build.targets.wheel.hooks.aotbuild"
# Keys that hatchling itself defines for every hook.
_HATCHLING = {
    "dependencies",
    "enable-by-default",
    "require-runtime-dependencies",
    "require-runtime-features",
    "path",
}
_CHOICES = ("build", "defer")


@dataclass(frozen=True)
class Options:
    """`manifest` is relative to the project; `editable` says what `pip install -e` does."""

    manifest: str = "aot.yaml"
    editable: str = "build"


def read_options(table: Mapping[str, Any]) -> Options:
    """Read the hook's table; PlanError names a key or value that is not one.

    AOTBUILD_EDITABLE in the environment overrides `editable`.
    """
    unknown = sorted(set(table) - {"manifest", "editable"} - _HATCHLING)
    if unknown:
        msg = f"[{_TABLE}]: unknown key {unknown[0]!r}; known: manifest, editable"
        raise PlanError(msg)
    manifest = table.get("manifest", "aot.yaml")
    editable = os.environ.get("AOTBUILD_EDITABLE") or table.get("editable", "build")
    if not isinstance(manifest, str):
        msg = f"[{_TABLE}]: manifest: expected a path, found {manifest!r}"
        raise PlanError(msg)
    if editable not in _CHOICES:
        msg = f"[{_TABLE}]: editable: expected one of {', '.join(_CHOICES)}, found {editable!r}"
        raise PlanError(msg)
    return Options(manifest, editable)
