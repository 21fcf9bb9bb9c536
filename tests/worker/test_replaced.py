"""Modules that replace something in others while they are imported, and functions beside them."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from support.projects import MANIFEST, write_project

from aotbuild.build.events import UnitDone, ignore
from aotbuild.build.executors.driver import run_units
from aotbuild.build.plan import make_plan
from aotbuild.build.sources import find_sources
from aotbuild.manifest import load_manifest
from aotbuild.toolchains.toolchain import probe
from aotbuild.worker.replaced import Attributes

MODULES = {
    "patches": "import jax\n_old = jax.nn.relu\n"
    "def patched(x): return _old(x) * 10\n"
    "jax.nn.relu = patched\ndef f(x): return jax.nn.relu(x)\n",
    "plain": "import jax\ndef f(x): return jax.nn.relu(x)\n",
    "common": "GAIN = 2.0\nclass Layer:\n    def call(self, x): return x * GAIN\n",
    "sets": "import proj.common\nproj.common.GAIN = 3.0\n"
    "def f(x): return proj.common.Layer().call(x)\n",
    "extends": "import proj.common\nproj.common.Layer.call = lambda self, x: x * 5\n"
    "def f(x): return proj.common.Layer().call(x)\n",
    "uses": "import proj.common\ndef f(x): return proj.common.Layer().call(x)\n",
}
NAMES = tuple(name for name in MODULES if name != "common")
REPLACED = {
    "patches": "importing proj.patches replaced jax.nn.relu: compiled with it",
    "sets": "importing proj.sets replaced proj.common.GAIN: compiled with it",
    "extends": "importing proj.extends replaced proj.common.Layer.call: compiled with it",
}


def build(folder: Path, names: tuple[str, ...]) -> dict[str, UnitDone]:
    """Build a function of each of these modules, in this order."""
    entries = "".join(
        f"  {name}: {{call: 'proj.{name}:f', args: [x: 'f32[3]']}}\n" for name in names
    )
    root = write_project(
        folder / "project",
        f"version: 1\npackage: proj\ntargets: [cpu]\nfunctions:\n{entries}",
        **MODULES,
    )
    manifest = load_manifest(root / MANIFEST)
    (folder / "blobs").mkdir()
    plan = make_plan(manifest, probe())
    sources = find_sources(root, manifest.package)
    return {d.unit.name: d for d in run_units(plan, sources, folder / "blobs", ignore)}


def programs(done: dict[str, UnitDone]) -> dict[str, Any]:
    found = {}
    for name, each in done.items():
        assert each.record is not None, each.failure
        found[name] = each.record.provenance["stablehlo"]
    return found


@pytest.mark.process
@pytest.mark.parametrize("order", [NAMES, NAMES[::-1]], ids=["there", "back"])
def test_a_function_has_what_its_own_modules_replaced(
    tmp_path: Path, order: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a process of its own, whatever came before; a module may be imported to be patched."""
    monkeypatch.setenv("AOTBUILD_JOBS", "1")
    done = build(tmp_path / "together", order)
    for name in NAMES:
        assert programs(build(tmp_path / name, (name,))) == {name: programs(done)[name]}
        notes = {note for note in done[name].notes if "replaced" in note}
        assert notes == ({REPLACED[name]} if name in REPLACED else set())


@pytest.fixture
def library() -> Iterator[ModuleType]:
    """A module of an installation."""
    module: Any = ModuleType("some_library")
    module.__file__ = "/env/site-packages/some_library.py"
    module.ARRAYS, module.TOUCHY = (np.ones(3), np.ones(3)), Touchy()
    code = (
        "COUNT = 1\n_state = 1\nNAME = 'a'\nTABLE = {}\ndef run(): pass\nclass Thing:\n  size = 1\n"
    )
    exec(code, module.__dict__)
    sys.modules[module.__name__] = module
    yield module
    del sys.modules[module.__name__]


def mine() -> None:
    """Stand for code of the project."""


SEEN: dict[str, Callable[[Any], Any]] = {
    "some_library.run": lambda m: setattr(m, "run", mine),
    "some_library.TABLE": lambda m: setattr(m, "TABLE", functools.partial(mine)),
    "some_library.NAME": lambda m: setattr(m, "NAME", "b"),
    "some_library.COUNT": lambda m: setattr(m, "COUNT", 1.0),
    "some_library.ARRAYS": lambda m: setattr(m, "ARRAYS", (np.ones(3), np.ones(2))),
    "some_library.Thing.size": lambda m: setattr(m.Thing, "size", 2),
}


class Touchy:
    """Nothing may be asked of it."""

    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError(name)


UNSEEN: dict[str, Callable[[Any], Any]] = {
    "added": lambda m: setattr(m, "more", mine),
    "private": lambda m: setattr(m, "_state", 2),
    "equal": lambda m: setattr(m, "NAME", "".join(["", "a"])),
    "of a library": lambda m: setattr(m, "run", len),
    "a table": lambda m: m.TABLE.update(a=1),
    "touchy": lambda m: setattr(m, "_state", Touchy()),
    "removed": lambda m: delattr(m, "NAME"),
}


@pytest.mark.parametrize("name", SEEN)
def test_what_counts(library: ModuleType, name: str) -> None:
    attributes = Attributes()
    SEEN[name](library)
    assert attributes.replaced() == [name]


@pytest.mark.parametrize("change", UNSEEN.values(), ids=UNSEEN)
def test_what_does_not_count(library: ModuleType, change: Callable[[Any], Any]) -> None:
    attributes = Attributes()
    change(library)
    assert attributes.replaced() == []
