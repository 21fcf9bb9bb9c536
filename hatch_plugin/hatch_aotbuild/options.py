"""The hook's own table in pyproject.toml, checked."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
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
    """`manifest` is relative to the project; `editable` says what `pip install -e` does.

    `sbom` asks for a bill of materials in the wheel.
    """

    manifest: str = "aot.yaml"
    editable: str = "build"
    sbom: bool = False


def read_options(table: Mapping[str, Any]) -> Options:
    """Read the hook's table; PlanError names a key or value that is not one.

    AOTBUILD_MANIFEST and AOTBUILD_EDITABLE in the environment override `manifest` and `editable`.
    """
    known = [option.name for option in fields(Options)]
    unknown = sorted(set(table) - {*known} - _HATCHLING)
    if unknown:
        msg = f"[{_TABLE}]: unknown key {unknown[0]!r}; known: {', '.join(known)}"
        raise PlanError(msg)
    manifest = os.environ.get("AOTBUILD_MANIFEST") or table.get("manifest", "aot.yaml")
    editable = os.environ.get("AOTBUILD_EDITABLE") or table.get("editable", "build")
    sbom = table.get("sbom", False)
    if not isinstance(manifest, str):
        msg = f"[{_TABLE}]: manifest: expected a path, found {manifest!r}"
        raise PlanError(msg)
    if editable not in _CHOICES:
        msg = f"[{_TABLE}]: editable: expected one of {', '.join(_CHOICES)}, found {editable!r}"
        raise PlanError(msg)
    if not isinstance(sbom, bool):
        msg = f"[{_TABLE}]: sbom: expected true or false, found {sbom!r}"
        raise PlanError(msg)
    return Options(manifest, editable, sbom)
