"""What a module gets without reading it, because another did: direct mode knows, or gives up."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.cli import run
from support.projects import write_project

import aotbuild

pytestmark = pytest.mark.process

# The recipe of importlib's documentation, "Importing a source file directly".
BY_SPEC = """
import importlib.util, pathlib, sys
path = pathlib.Path(__file__).parent / "settings.py"
spec = importlib.util.spec_from_file_location("settings", path)
settings = importlib.util.module_from_spec(spec)
sys.modules["settings"] = settings
spec.loader.exec_module(settings)
def f(x): return x * settings.SCALE
"""
BY_RUNPY = """
import runpy
settings = runpy.run_module("proj.settings")
def f(x): return x * settings["SCALE"]
"""


def test_each_of_them_is_traced_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second module of each kind kept the numbers from before the edit."""
    modules = {"a": BY_SPEC, "b": BY_SPEC, "c": BY_RUNPY, "d": BY_RUNPY}
    manifest = "version: 1\npackage: proj\nfunctions:\n" + "".join(
        f"  {name}: {{call: 'proj.{name}:f', args: [x: 'f32[2]']}}\n" for name in modules
    )
    modules |= {"settings": "from proj import common\nSCALE = common.SCALE\n"}
    root = write_project(tmp_path / "here", manifest, **modules, common="SCALE = 3.0\n")
    monkeypatch.setenv("AOTBUILD_JOBS", "1")
    monkeypatch.setenv("AOTBUILD_STORE", str(tmp_path / "store"))
    monkeypatch.setenv("AOTBUILD_DIRECT", "on")
    monkeypatch.chdir(root)
    for scale in (3.0, 30.0):
        (root / "proj" / "common.py").write_text(f"SCALE = {scale}\n")
        run("build", "--out", tmp_path / "_aot")
        library, x = aotbuild.load(tmp_path / "_aot"), np.ones(2, np.float32)
        assert [float(getattr(library, name)(x)[0]) for name in "abcd"] == [scale] * 4


UTIL = """
import functools, importlib, os, pathlib
import numpy as np
HERE = pathlib.Path(__file__).parent
load = functools.cache(np.load)
read = functools.lru_cache(maxsize=None)(pathlib.Path.read_text)
get = functools.cache(os.getenv)
config = functools.cache(importlib.import_module)
@functools.cache
def own(name): return float((HERE / name).read_text())
class Assets:
    load = staticmethod(functools.cache(np.load))
SPACE = dict(HERE=HERE, functools=functools)
exec("@functools.cache\\ndef run(): return float((HERE / 'w.txt').read_text())", SPACE)
"""
USES = {
    "load": "from proj.util import HERE, load\nW = load(HERE / 'w.npy')\n",
    "read": "from proj.util import HERE, read\nW = float(read(HERE / 'w.txt'))\n",
    "get": "from proj.util import get\nW = float(get('PROJ_SCALE'))\n",
    "config": "from proj.util import config\nW = config('proj.base').SCALE\n",
    "held": "from proj.util import HERE, Assets\nW = Assets.load(HERE / 'w.npy')\n",
    "ran": "from proj.util import SPACE\nW = SPACE['run']()\n",
    "own": "from proj.util import own\nW = own('w.txt')\n",
}


def test_caches_around_functions_of_libraries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second module that used one kept the numbers from before the edit."""
    text = "\ndef f(x): return x * W\n"
    modules = {f"{use}{n}": f"{code}{text}" for use, code in USES.items() for n in (1, 2)}
    manifest = "version: 1\npackage: proj\nfunctions:\n" + "".join(
        f"  {name}: {{call: 'proj.{name}:f', args: [x: 'f32[2]']}}\n" for name in modules
    )
    root = write_project(tmp_path / "here", manifest, **modules, util=UTIL, base="SCALE = 3.0\n")
    monkeypatch.setenv("AOTBUILD_JOBS", "1")
    monkeypatch.setenv("AOTBUILD_STORE", str(tmp_path / "store"))
    monkeypatch.setenv("AOTBUILD_DIRECT", "on")
    monkeypatch.chdir(root)
    for scale in (3.0, 30.0):
        np.save(root / "proj" / "w.npy", np.full(2, scale, np.float32))
        (root / "proj" / "w.txt").write_text(f"{scale}")
        (root / "proj" / "base.py").write_text(f"SCALE = {scale}\n")
        monkeypatch.setenv("PROJ_SCALE", f"{scale}")
        run("build", "--out", tmp_path / "_aot")
        library, x = aotbuild.load(tmp_path / "_aot"), np.ones(2, np.float32)
        assert {name: float(getattr(library, name)(x)[0]) for name in modules} == dict.fromkeys(
            modules, scale
        )
