"""What pyproject.toml says to the hooks, and the variables that override it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from hatchling.metadata.core import HatchMetadata

from aotbuild.errors import PlanError
from aotbuild.format.canonical import is_utf8
from aotbuild.toolchains.project import METADATA_TABLE

NAME = "aotbuild"
# The variables with the folder for kept stages, and with a finished `_aot` folder.
STAGES = "AOTBUILD_STAGES"
PREBUILT = "AOTBUILD_PREBUILT"
_TABLE = f"tool.hatch.build.targets.wheel.hooks.{NAME}"
# Keys that hatchling itself defines for every hook.
_HATCHLING = {
    "dependencies",
    "enable-by-default",
    "require-runtime-dependencies",
    "require-runtime-features",
    "path",
}
# 2108-01-01, in seconds since 1970: the year of a file in a zip has 7 bits, counted from 1980.
_TOO_LATE = 4354819200
_EDITABLE = ("build", "defer")
_ON_FAILURE = ("error", "skip")


@dataclass(frozen=True)
class Options:
    """`manifest` is relative to the project; `editable` says what `pip install -e` does.

    `on_failure` says what becomes of units that fail.
    """

    manifest: str = "aot.yaml"
    editable: str = "build"
    on_failure: str = "error"


def read_options(table: Mapping[str, Any]) -> Options:
    """Read the hook's table; PlanError names a key or value that is not one.

    AOTBUILD_MANIFEST, AOTBUILD_EDITABLE and AOTBUILD_ON_FAILURE in the environment override
    `manifest`, `editable` and `on-failure`.
    """
    known = [option.name.replace("_", "-") for option in fields(Options)]
    unknown = sorted(set(table) - {*known} - _HATCHLING)
    if unknown:
        msg = f"[{_TABLE}]: unknown key {unknown[0]!r}; known: {', '.join(known)}"
        raise PlanError(msg)
    manifest = os.environ.get("AOTBUILD_MANIFEST") or table.get("manifest", "aot.yaml")
    if not isinstance(manifest, str) or "\0" in manifest or not is_utf8(manifest):
        msg = f"[{_TABLE}]: manifest: expected a path in UTF-8, found {manifest!r}"
        raise PlanError(msg)
    editable = _choice(table, "editable", _EDITABLE)
    on_failure = _choice(table, "on-failure", _ON_FAILURE)
    return Options(manifest, editable, on_failure)


def _choice(table: Mapping[str, Any], key: str, choices: tuple[str, ...]) -> str:
    """Return the value of a key, by default the first choice; its variable overrides the table."""
    variable = f"AOTBUILD_{key.upper().replace('-', '_')}"
    found = os.environ.get(variable) or table.get(key, choices[0])
    if found not in choices:
        msg = f"[{_TABLE}]: {key}: expected one of {', '.join(choices)}, found {found!r}"
        raise PlanError(msg)
    return str(found)


def chosen_folder(environment: Mapping[str, str], variable: str) -> Path | None:
    """Return the folder that a variable names, if set; PlanError if it is relative."""
    chosen = environment.get(variable)
    if chosen and not Path(chosen).is_absolute():
        msg = (
            f"the environment variable {variable}: expected an absolute path, found {chosen!r}; "
            "builds run in folders of their own"
        )
        raise PlanError(msg)
    return Path(chosen) if chosen else None


def check_time(environment: Mapping[str, str]) -> None:
    """Raise PlanError if SOURCE_DATE_EPOCH is no time that hatchling can write into a wheel."""
    text = environment.get("SOURCE_DATE_EPOCH")
    if text is None:
        return
    try:
        is_late = int(text) >= _TOO_LATE
    except ValueError as err:
        msg = f"SOURCE_DATE_EPOCH: expected whole seconds since 1970, found {text!r}"
        raise PlanError(msg) from err
    if is_late:
        msg = f"SOURCE_DATE_EPOCH: a wheel has no times after 2107, found {text!r}"
        raise PlanError(msg)


def wheel_table(hatch: HatchMetadata[Any]) -> dict[str, Any]:
    """Return the build hook's table: that of wheels, else that of all targets.

    PlanError if there is none: the wheel would require jaxlib, and have no executables.
    """
    tables = (hatch.build_targets.get("wheel", {}), hatch.build_config)
    for table in tables:
        if NAME in table.get("hooks", {}):
            return dict(table["hooks"][NAME])
    msg = (
        f"pyproject.toml: the metadata hook {NAME} is there, and the build hook is not\n"
        f"  expected a table [{_TABLE}]\n  found    none\n"
        "Add it, if only its first line: without it, the wheel has no executables."
    )
    raise PlanError(msg)


def check_dynamic(project: Mapping[str, Any], hatch: HatchMetadata[Any]) -> None:
    """Raise PlanError unless the project leaves its requirements to the metadata hook.

    `project` is the [project] table as it is written. Installers take dependencies that are written
    there for all that there are, and would leave out jaxlib.
    """
    has_table = NAME in hatch.metadata.hook_config
    own = project.get("dependencies", [])
    if has_table and "dependencies" not in project and "dependencies" in project.get("dynamic", []):
        return
    found = f"dependencies = {json.dumps(own)}" if "dependencies" in project else "no such lines"
    dynamic = sorted({*project.get("dynamic", []), "dependencies"})
    table = dict(hatch.metadata.hook_config.get(NAME, {}))
    listed_already = table.get("dependencies", [])
    if own and isinstance(listed_already, list):  # `uv add` writes below [project], beside it
        table["dependencies"] = list(dict.fromkeys([*listed_already, *own]))
    lines = ("[project]", f"dynamic = {json.dumps(dynamic)}", "", f"[{METADATA_TABLE}]")
    listed = (f"{key} = {json.dumps(value)}" for key, value in table.items())
    msg = (
        "pyproject.toml: what the wheel requires is known only when its toolchain is\n"
        f"  expected dependencies that the metadata hook {NAME} sets\n"
        f"  found    {found}\n"
        "Write these lines; the project's own dependencies stand in the second table:\n\n"
        + "\n".join(f"  {line}".rstrip() for line in (*lines, *listed))
    )
    raise PlanError(msg)


def missing_extra(missing: ModuleNotFoundError) -> str:
    """Return the message for a build without a package of aotbuild's extra `build`."""
    return (
        f"aotbuild: a build needs {missing.name}, which is not installed\n"
        '  expected requires = ["hatchling", "aotbuild[build]"] under [build-system]\n'
        "  found    aotbuild without its extra `build`\n"
        "Add the extra. Without build isolation, install aotbuild[build] in this environment."
    )
