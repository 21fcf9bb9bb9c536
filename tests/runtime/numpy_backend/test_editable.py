"""An editable install has no executables, and numpy's arrays call nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.projects import ONE_FUNCTION, write_project

import aotbuild
from aotbuild.errors import AotbuildError
from aotbuild.format.index import INDEX_NAME
from aotbuild.manifest import load_manifest
from hatch_aotbuild.plugin import editable_index


def test_it_is_refused_in_its_own_words(tmp_path: Path) -> None:
    root = write_project(tmp_path, ONE_FUNCTION)
    folder = root / "proj" / "_aot"
    folder.mkdir()
    (folder / INDEX_NAME).write_bytes(editable_index(load_manifest(root / "aot.yaml")))
    says = r"proj is an editable install without executables.*run `aotbuild build --in-place`"
    with pytest.raises(AotbuildError, match=says):
        aotbuild.load(folder, arrays="numpy")
