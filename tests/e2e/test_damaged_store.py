"""Every kind of entry in the store, damaged in every way: the next wheel is the same."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from support.cli import invoke
from support.installs import build_wheel
from support.projects import PYPROJECT, write_project
from support.shared import made_once

from aotbuild.store.entry import Entry, read_entry, write_entry
from aotbuild.store.prune import survey

pytestmark = [pytest.mark.wheel, pytest.mark.any_jax]

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
    """A project, its wheel in `wheel`, and the store of two builds, the second of which hit."""

    def make(folder: Path) -> None:
        project = write_project(folder / "project", MANIFEST, m=SOURCE)
        (project / "pyproject.toml").write_text(PYPROJECT)
        for _ in range(2):
            build(folder, folder / "store", folder / "wheel")

    return made_once(run / "damaged-store", make)


def build(built: Path, store: Path, out: Path) -> bytes:
    """Build a wheel, and return its bytes."""
    env = {"AOTBUILD_STORE": str(store), "SOURCE_DATE_EPOCH": "1700000000"}
    return build_wheel(built / "project", out, **env).read_bytes()


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
    (wheel,) = (built / "wheel").glob("*.whl")
    assert build(built, store, tmp_path / "wheel") == wheel.read_bytes()
    monkeypatch.setenv("AOTBUILD_STORE", str(store))
    assert invoke("store", "verify").exit_code == 0


def test_other_facts(built: Path, tmp_path: Path) -> None:
    """Whole entries, of which somebody has written others under the same keys."""
    store = shutil.copytree(built / "store", tmp_path / "store")
    for item in survey(store):
        if kind_of(read_entry(item.path.read_bytes(), item.key)) in KINDS[-1]:
            other = Entry({"jax": "0.1"}, b"other bytes")
            item.path.write_bytes(write_entry(item.key, other))
        else:
            item.path.unlink()
    (wheel,) = (built / "wheel").glob("*.whl")
    assert build(built, store, tmp_path / "wheel") == wheel.read_bytes()
