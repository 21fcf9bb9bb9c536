"""What the environment says to Python decides no more than the key of direct mode says."""

from __future__ import annotations

import json
import locale
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.direct import HERE, Place, manifest
from support.installs import tree_of
from support.processes import ROOT, clean_environment
from support.projects import MANIFEST, write_project

from aotbuild.build.direct.world import Worlds
from aotbuild.build.jobs import make_jobs
from aotbuild.build.plan import make_plan
from aotbuild.build.settings import Settings
from aotbuild.build.sources import SourceTree
from aotbuild.format.encodings import encodings
from aotbuild.manifest import load_manifest
from aotbuild.store.file_digests import FileDigests
from aotbuild.toolchains.toolchain import probe

pytestmark = [pytest.mark.process, pytest.mark.any_jax]

# Of each, what code sees is a number.
MODULES = {
    "text": HERE + "K = len((HERE / 'text.txt').read_text(errors='replace'))",
    "locale_text": HERE
    + "K = len((HERE / 'text.txt').read_text(encoding='locale', errors='replace'))",
    "preferred": "import locale\nK = sum(map(ord, locale.getpreferredencoding(False)))",
    "flags": "import sys\nK = hash(tuple(sys.flags)) % 1009",
    "digits": "import sys\nK = sys.get_int_max_str_digits()",
    "traced": "import tracemalloc\nK = int(tracemalloc.is_tracing())",
}
FUNCTION = "\ndef f(x): return x + K"
ASCII = {"PYTHONUTF8": "0", "LC_ALL": "C", "PYTHONCOERCECLOCALE": "0"}
SWITCHES = {
    "PYTHONDEVMODE": "1",
    "PYTHONINTMAXSTRDIGITS": "5000",
    "PYTHONWARNDEFAULTENCODING": "1",
    "PYTHONTRACEMALLOC": "1",
    "PYTHONDEBUG": "1",
}
UTF8 = {"LC_ALL": "C.UTF-8"}


class Shell:
    """A project that is built from shells with other variables."""

    def __init__(self, folder: Path) -> None:
        self.root, self.store = folder / "project", str(folder / "store")
        sources = {name: source + FUNCTION for name, source in MODULES.items()}
        write_project(self.root, manifest([*MODULES]), **sources)
        (self.root / "proj" / "text.txt").write_text("äöü", encoding="utf-8")
        self.count = 0

    def build(self, env: Mapping[str, str], store: str = "") -> tuple[set[str], dict[str, bytes]]:
        """Return the functions that were traced, and the package."""
        self.count += 1
        out = self.root.parent / f"out{self.count}"
        command = [sys.executable, "-m", "aotbuild", "build", "--json", "--out", f"{out}/_aot"]
        plain = clean_environment(PYTHONPATH=str(ROOT), AOTBUILD_STORE=store or self.store)
        for name in ("LANG", "LC_ALL", "LC_CTYPE", "PYTHONUTF8"):
            plain.pop(name, None)
        done = subprocess.run(
            command, cwd=self.root, env={**plain, **env}, capture_output=True, timeout=300
        )
        assert done.returncode == 0, done.stderr
        units: list[dict[str, Any]] = json.loads(done.stdout)["units"]
        return {unit["function"] for unit in units if not unit["direct"]}, tree_of(out)


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


def test_what_a_shell_says_to_python(shell: Shell) -> None:
    traced, first = shell.build(UTF8)
    assert traced == {*MODULES}
    traced, found = shell.build(ASCII)
    assert traced == {*MODULES}
    assert found == shell.build(ASCII, store="off")[1]
    assert found != first
    assert shell.build(ASCII) == (set(), found)
    # A container without a locale and a laptop share their entries, and switches reach no worker.
    for env in (SWITCHES, {"LANG": "C.UTF-8", "PYTHONUTF8": "1"}):
        assert shell.build(env) == (set(), first), env
    assert shell.build(SWITCHES, store="off")[1] == first


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    place = Place(tmp_path, monkeypatch)
    write_project(place.root, manifest(["one"]), one="def f(x): return x")
    return place


def settings_of(place: Place, env: str) -> Settings:
    text = (place.root / MANIFEST).read_text()
    place.write(MANIFEST, text.replace('"proj.one:f"', f'"proj.one:f", env: {env}'))
    plan = make_plan(load_manifest(place.root / MANIFEST), probe())
    return make_jobs(plan.units)[0][0]


@pytest.mark.parametrize("other", [False, True], ids=["this Python", "another Python"])
def test_encodings_are_those_of_the_worker(place: Place, other: bool) -> None:
    """The manifest's variables count, and an interpreter that differs is asked."""
    settings = settings_of(place, "{LC_ALL: C, PYTHONUTF8: '0', PYTHONCOERCECLOCALE: '0'}")
    if other:
        toolchain = replace(settings.toolchain, interpreter=Path(sys.executable))
        settings = replace(settings, toolchain=toolchain)
    worlds = Worlds(SourceTree(place.root, place.root, "proj"), FileDigests(None))
    assert worlds.python(replace(settings, env=())).encodings == encodings()
    assert worlds.python(settings).encodings == ("ascii", "ANSI_X3.4-1968")
    assert worlds.python(settings).version == sys.version


def test_encodings_that_nobody_expected_are_not_kept(place: Place) -> None:
    """As of a worker on another machine."""
    assert encodings() == ("utf-8", "UTF-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LC_ALL", "C")
        assert [place.traced() for _ in range(2)] == [{"one"}, {"one"}]
    assert [place.traced() for _ in range(2)] == [{"one"}, set()]


def test_a_locale_that_is_set_later_is_no_other_encoding_of_files(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = locale.setlocale(locale.LC_CTYPE)
    found = encodings()
    try:
        locale.setlocale(locale.LC_CTYPE, "C")
        assert encodings()[0] == found[0]
        assert os.fsencode("ü") == "ü".encode(found[0])
    finally:
        locale.setlocale(locale.LC_CTYPE, before)
