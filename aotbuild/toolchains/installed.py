"""What is installed here, as plain JSON that changes whenever any of it does. Reads few files.

Imports neither the manifest's model nor YAML, so it costs milliseconds.
"""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterator
from functools import cache
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from aotbuild.format.canonical import canonical_json, sha256_hex
from aotbuild.platforms.base import machine
from aotbuild.store.file_digests import FileDigests

_METADATA = (".dist-info", ".egg-info")
# Python runs their lines when it starts.
_STARTED = ".pth"
_PACKAGE = Path(__file__).resolve().parents[1]
_HOOK = "hatch_aotbuild"


def installed(digests: FileDigests) -> dict[str, Any]:
    """Return the machine, the Python, all distributions with their versions, and our own code.

    Two wheels of one version of jaxlib differ in their platform tags, so its WHEEL file is there.
    """
    return {
        "aotbuild": own_code(digests),
        "distributions": [*filter(None, (distributions(each, digests) for each in sys.path))],
        "jaxlib": _text("jaxlib", "WHEEL"),
        "machine": machine().to_json(),
        "python": [platform.python_implementation(), sys.version, sys.platform],
    }


def distributions(folder: str, digests: FileDigests) -> list[list[str]]:
    """Return what is installed in a folder: names of metadata, as `jax-0.10.2.dist-info`.

    Beside them are the `.pth` files, each with its digest.
    """
    found = []
    for name in sorted(_names(folder)):
        if name.endswith(_METADATA):
            found.append([name])
        elif name.endswith(_STARTED):
            found.append([name, digests.of(os.path.join(folder, name))])
    return found


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder or ".")  # noqa: PTH208 (a path for each takes longer)
    except OSError:
        return []


@cache
def own_code(digests: FileDigests) -> str:
    """Return the digest of aotbuild's files and of the hook's.

    The version is not enough: an editable install changes under one version.
    """
    spec = find_spec(_HOOK)
    hooks = spec.submodule_search_locations if spec else None
    rows = [
        [folder.name, path[len(str(folder)) + 1 :], digests.of(path)]
        for folder in (_PACKAGE, *map(Path, hooks or ()))
        for path in sorted(_files(str(folder)))
    ]
    return sha256_hex(canonical_json(rows))


def _files(folder: str) -> Iterator[str]:
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name != "__pycache__"]
        yield from (os.path.join(place, name) for name in names)


def _text(distribution: str, name: str) -> str:
    """Return a file of a distribution's metadata; "" where there is none."""
    try:
        return metadata.distribution(distribution).read_text(name) or ""
    except metadata.PackageNotFoundError:
        return ""
