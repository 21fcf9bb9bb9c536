"""Every kind of entry in the store, damaged in every way: the next package is the same."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from support.cli import run as run_command
from support.installs import tree_of
from support.projects import write_project
from support.shared import made_once

from aotbuild.store.entry import Entry, read_entry
from aotbuild.store.prune import survey

pytestmark = [pytest.mark.process, pytest.mark.any_jax]

MANIFEST = """
version: 1
package: proj
functions:
  scaled:
    call: "proj.m:scaled"
    args: [x: "f32[batch]"]
    dims: {batch: 4}
    pad: {batch: 0}
    constants: hoist
    verify: {golden: always}
"""
SOURCE = """
import jax.numpy as jnp
import numpy as np

TABLE = np.arange(2000, dtype=np.float32)


def scaled(x):
    return x * jnp.sum(TABLE)
"""
# The kinds of entries, in the order of their use: those of a line are read if none of the lines
# before it can be used.
KINDS = (("build", "blob"), ("executable", "golden", "padding"))
NAMES = [name for line in KINDS for name in line]


@pytest.fixture(scope="module")
def built(run: Path) -> Path:
    """A project, its package in `_aot`, and the store of two builds, the second of which hit."""

    def make(folder: Path) -> None:
        write_project(folder / "project", MANIFEST, m=SOURCE)
        for _ in range(2):
            build(folder, folder / "store", folder / "_aot")

    return made_once(run / "damaged-store", make)


def build(built: Path, store: Path, out: Path) -> dict[str, bytes]:
    """Build the package, and return its files."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AOTBUILD_STORE", str(store))
        patch.chdir(built / "project")
        run_command("build", "--out", out)
    return tree_of(out)


def kinds_in(store: Path) -> dict[str, list[Path]]:
    """Return the files of whole entries by their kinds."""
    found: dict[str, list[Path]] = {}
    for item in survey(store):
        found.setdefault(kind_of(read_entry(item.path.read_bytes(), item.key)), []).append(
            item.path
        )
    return found


def kind_of(entry: Entry) -> str:
    signs = {"finite": "golden", "analysis": "executable"}
    signs |= {name: name for name in ("padding", "entry")}
    sign = next(name for name in signs if name in entry.facts)
    return str(entry.facts["entry"] if sign == "entry" else signs[sign])


def test_every_kind_is_there(built: Path) -> None:
    assert sorted(kinds_in(built / "store")) == sorted(NAMES)


def other_bytes(path: Path) -> bytes:
    return next(each for each in sorted(path.parents[1].rglob("*/*")) if each != path).read_bytes()


def replaced_by(make: Callable[[Path], None]) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        path.unlink()
        make(path)

    return damage


DAMAGES: list[Callable[[Path], object]] = [
    replaced_by(os.mkfifo),
    replaced_by(lambda path: path.symlink_to("nowhere")),
    lambda path: path.write_bytes(b""),
    lambda path: os.truncate(path, path.stat().st_size // 2),
    lambda path: path.write_bytes(path.read_bytes()[:-1] + b"\xff"),
    lambda path: path.write_bytes(other_bytes(path)),
]


@pytest.mark.parametrize("kind", NAMES)
def test_damage(built: Path, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store = shutil.copytree(built / "store", tmp_path / "store")
    kinds = kinds_in(store)
    line = next(place for place, names in enumerate(KINDS) if kind in names)
    for name in (name for names in KINDS[:line] for name in names):
        for path in kinds[name]:
            path.unlink()
    for path in kinds[kind]:
        DAMAGES[NAMES.index(kind) % len(DAMAGES)](path)
    assert build(built, store, tmp_path / "_aot") == tree_of(built / "_aot")
    monkeypatch.setenv("AOTBUILD_STORE", str(store))
    run_command("store", "verify")
