"""What a user should know of a finished wheel: notes, and not errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from aotbuild.format.index import FOLDER_NAME, INDEX_NAME
from aotbuild.format.shard import Shard
from hatch_aotbuild.options import NAME


def shard_note(wheel: str, shard: Shard | None) -> str | None:
    """Return a note about a wheel that must be joined with others."""
    if shard is None:
        return None
    return f"{wheel} is shard {shard} of a build: `aotbuild merge` joins all of them"


def missing_note(wheel: str, missing: str) -> str | None:
    """Return a note about a wheel without everything that its manifest asks for."""
    if not missing:
        return None
    return (
        f"{wheel} lacks {missing} of its manifest, which failed and on-failure = skip left "
        "out; `aotbuild inspect` lists them"
    )


def version_note(wheel: str, metadata: Any, manifest: Path) -> str | None:
    """Return a note about a wheel whose version should name its jax, and does not.

    `metadata` is hatchling's, of the project.
    """
    if metadata.hatch.config.get("version", {}).get("source") != NAME:
        return None
    if "version" in metadata.config["project"]:
        return (
            f"{wheel} has the version of [project], so its jax is not added; list version "
            "under dynamic, and write it under [tool.hatch.version]"
        )
    from hatch_aotbuild.compiling import expected_local_version

    local = expected_local_version(manifest)
    if local in metadata.version:
        return None
    return (
        f"{wheel} has the version of its source distribution, without +{local}: that was made "
        "without jax. Build the wheel from the project itself (--wheel), or name a toolchain"
    )


def sdist_note(root: Path) -> str | None:
    """Return a note if this is a source distribution that holds executables."""
    if not (root / "PKG-INFO").is_file():
        return None
    found = sorted(path.parent for path in root.rglob(f"{FOLDER_NAME}/{INDEX_NAME}"))
    if not found:
        return None
    named = ", ".join(folder.relative_to(root).as_posix() for folder in found)
    return (
        f"{root.name}.tar.gz holds executables: {named}; build-backend = "
        '"hatch_aotbuild.backend" leaves them out'
    )
