"""Export a package into a folder for JAX's persistent compilation cache, in a fresh process."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from aotbuild.errors import ExportFailed
from aotbuild.verify.fresh import run_fresh

_CHILD = "aotbuild.jax_cache.child"
WHAT_STAYS = "What was written so far stays; each entry is whole."


@dataclass(frozen=True)
class Entry:
    """What became of a signature.

    Attributes:
        function: The name of the function.
        signature: The signature as the manifest writes it, as `score(batch=8)`.
        written: The keys of entries that were written.
        kept: The keys of entries that were there, and stayed.
        reason: Why it has no entry; empty if it has.
        settings: The options of jax that it was traced with.
    """

    function: str
    signature: str
    written: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    reason: str = ""
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def keys(self) -> tuple[str, ...]:
        """All keys of the signature."""
        return (*self.written, *self.kept)


@dataclass(frozen=True)
class Exported:
    """What was exported: facts that the keys depend on, notes for the user, and the entries."""

    facts: dict[str, Any]
    notes: tuple[str, ...]
    entries: tuple[Entry, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form; the inverse of `from_json`."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Exported:
        """Read what `to_json` wrote."""
        entries = tuple(
            Entry(**{**each, "written": tuple(each["written"]), "kept": tuple(each["kept"])})
            for each in data["entries"]
        )
        return cls(data["facts"], tuple(data["notes"]), entries)


def export_cache(
    folder: Path,
    package: str,
    functions: Sequence[str],
    committed: Sequence[Sequence[str]] = (),
    like: Mapping[str, str] | None = None,
    *,
    known_as: str = "",
    overwrite: bool = False,
    timeout: float = 3600.0,
) -> Exported:
    """Write the functions of a package as entries of jax's cache.

    Args:
        folder: The folder of the cache; it is made if it does not exist.
        package: The name of a package, an `_aot` folder or a wheel.
        functions: The functions to export.
        committed: Sets of arguments that programs commit to devices, beside none and all.
        like: For arguments, by name, `module:attr` of a tree that has their structure.
        known_as: The path by which programs name the folder; by default its absolute path.
        overwrite: Whether entries that are there are replaced.
        timeout: Seconds that it may take.

    Raises:
        ExportFailed: Nothing can be exported here, as the text says.
    """
    asked = {
        "folder": str(folder.absolute()),
        "known_as": known_as or str(folder.absolute()),
        "package": package,
        "functions": [*functions],
        "committed": [[*names] for names in committed],
        "like": dict(like or {}),
        "overwrite": overwrite,
    }
    answer = run_fresh(_CHILD, asked, os.environ, timeout)
    if isinstance(answer, str):
        msg = f"{package}: {answer}\n{WHAT_STAYS}"
        raise ExportFailed(msg)
    if "refused" in answer:
        raise ExportFailed(answer["refused"])
    return Exported.from_json(answer)
