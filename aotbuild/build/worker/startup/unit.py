"""What `startup:` means for one unit of a worker, and what its record says of it."""

from __future__ import annotations

from typing import Any

from jaxlib.version import __version__ as jaxlib_version

from aotbuild.build.startup import Choice, choice
from aotbuild.build.store import Entry
from aotbuild.spec import cpuinfo
from aotbuild.spec.isa import missing_features
from aotbuild.spec.record import Record
from aotbuild.spec.target import Target


def startup_notes(record: Record) -> list[str]:
    """Return a note for the user where `startup:` was not what the manifest asked for."""
    note = record.provenance.get("startup", {}).get("note")
    return [note] if note else []


def startup_of(mode: str, target: Target) -> Choice:
    """Return what to compile a target with."""
    obstacle = None
    if target.platform == "cpu" and target.devices != 1:
        obstacle = f"{target} is for {target.devices} devices"
    elif target.platform == "cpu":
        missing = missing_features(target.detail, cpuinfo.architecture(), cpuinfo.features())
        if missing:
            obstacle = f"this machine has no {', '.join(missing)} for {target}"
    return choice(mode, target.platform, jaxlib_version, obstacle)


def told(entry: Entry) -> dict[str, Any]:
    """Return what a record says of how its executable was compiled to start."""
    return {"startup": entry.facts["startup"]} if "startup" in entry.facts else {}
