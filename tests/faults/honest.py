"""A package that is right, and the same with another header: every digest fits."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import packages
from support.index_fuzz import with_fresh_digests
from support.shared import made_once, run_folder

from aotbuild.format.index import INDEX_NAME, Index


def package(factory: pytest.TempPathFactory) -> Path:
    """Return the `_aot` folder of a package whose one function is `double`."""

    def make(folder: Path) -> None:
        given = {"x": np.ones(16, np.float32)}
        packages.write(folder, [packages.build("double", lambda x: x * 2, given)])

    return made_once(run_folder(factory) / "honest", make) / "_aot"


def with_header(honest: Path, folder: Path, header: Mapping[str, Any]) -> Path:
    """Copy the package into a folder, with these keys in the index's header; return `_aot`."""
    place = Path(shutil.copytree(honest, folder / "_aot"))
    data = (place / INDEX_NAME).read_bytes()
    index = Index.open(data, INDEX_NAME)
    lines = data.split(b"\n")
    rows = [line.split() for line in lines[3 : 3 + index.row_count]]
    objects = lines[3 + index.row_count : -1]
    keyed = [(row[0].decode(), found) for row, found in zip(rows, objects, strict=True)]
    kept = {key: value for key, value in index.header.items() if key not in ("objects", "rows")}
    (place / INDEX_NAME).write_bytes(with_fresh_digests(keyed, {**kept, **header}))
    return place
