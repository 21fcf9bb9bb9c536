"""Builds that are killed at any write they make: the next one is as if nothing had happened."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest
from support.installs import tree_of
from support.kills import Case, Write, writes
from support.projects import PYPROJECT, write_project
from support.shared import made_once

from aotbuild.store.entry import read_entry
from aotbuild.store.prune import survey

pytestmark = [pytest.mark.process, pytest.mark.any_jax]

MANIFEST = """\
version: 1
package: proj
targets: [cpu, {{portable: {{platforms: [cpu]}}}}]
functions:
  shift:
    call: proj.code:shift
    args: [{{x: "f32[{size}]"}}]
    constants: hoist
    verify: {{golden: always}}
"""
CODE = """\
import jax.numpy as jnp
import numpy as np

TABLE = np.arange(2000, dtype=np.float32)


def shift(x):
    return jnp.sin(x).sum() + TABLE
"""
WHEEL = "import sys; from hatchling.build import build_wheel; build_wheel(sys.argv[1])"

# Builds that run at a time.
AT_ONCE = 2

Make = Callable[[Path, Path], Case]


@pytest.fixture(scope="module")
def projects(run: Path) -> Path:
    """Folders of a project: `now`, and `older`, which made something else."""

    def make(folder: Path) -> None:
        for name, size in (("now", 3), ("older", 2)):
            write_project(folder / name, MANIFEST.format(size=size), code=CODE)
            (folder / name / "pyproject.toml").write_text(PYPROJECT)

    return made_once(run / "crash-projects", make)


def command_line(projects: Path, folder: Path) -> Case:
    """A build by `aotbuild build` with two layers."""
    command = ("-m", "aotbuild", "build", "aot.yaml", "--out", str(folder / "out" / "_aot"))
    return Case(folder, projects / "now", command, ("front", "behind"))


def hook(projects: Path, folder: Path) -> Case:
    """A build by hatchling."""
    (folder / "out").mkdir(parents=True, exist_ok=True)
    return Case(folder, projects / "now", ("-c", WHEEL, str(folder / "out")), ("front",))


KINDS: dict[str, Make] = {"command-line": command_line, "hook": hook}


@pytest.fixture(scope="module")
def builds(run: Path, projects: Path) -> Path:
    """For each kind: `begin`, where a killed warm build starts, `cold`, the end, and logs.

    Cold builds have no store and no output. Warm ones find everything in the first layer and
    nothing in the other. Those by the command line find no finished build there, and the output of
    an older build in their place.
    """

    def make(folder: Path) -> None:
        older = replace(command_line(projects, folder / "older"), project=projects / "older")
        older.run()
        for name, kind in KINDS.items():
            case = kind(projects, folder / name / "cold")
            case.run(log=folder / name / "cold.log")
            assert case.leftovers() == []
            begin = kind(projects, folder / name / "begin")
            shutil.copytree(case.stores / "front", begin.stores / "front")
            if name == "command-line":
                for path in finished_in(begin.stores / "front"):
                    path.unlink()
                shutil.copytree(older.folder / "out", begin.folder / "out")
            warm = shutil.copytree(begin.folder, folder / name / "warm")
            kind(projects, warm).run(log=folder / name / "warm.log")

    return made_once(run / "crash-builds", make)


def test_cold_builds(projects: Path, builds: Path, tmp_path: Path, every_write: bool) -> None:
    found = chosen(every_write, builds, "command-line/cold", "command-line/warm")
    assert problems("command-line", projects, builds, tmp_path, found) == []


def test_warm_builds(projects: Path, builds: Path, tmp_path: Path, every_write: bool) -> None:
    found = chosen(every_write, builds, "command-line/warm")
    assert problems("command-line", projects, builds, tmp_path, found, warm=True) == []


def test_warm_builds_of_wheels(
    projects: Path, builds: Path, tmp_path: Path, every_write: bool
) -> None:
    found = chosen(every_write, builds, "hook/warm", "command-line/warm")
    assert problems("hook", projects, builds, tmp_path, found, warm=True) == []


def test_cold_builds_of_wheels(
    projects: Path, builds: Path, tmp_path: Path, every_write: bool
) -> None:
    others = [log.relative_to(builds).with_suffix("") for log in builds.glob("*/*.log")]
    others = [other for other in others if str(other) != "hook/cold"]
    found = chosen(every_write, builds, "hook/cold", *map(str, others))
    assert problems("hook", projects, builds, tmp_path, found) == []


def chosen(every: bool, builds: Path, log: str, *others: str) -> list[Write]:
    """Return the writes of a build to be killed at: the first of each kind, or every one.

    Kinds that other builds have, by their logs, are tried with those.
    """
    found = writes(builds / f"{log}.log")
    if every:
        return found
    known = {kind_of(write) for other in others for write in writes(builds / f"{other}.log")}
    new = {kind_of(write): write for write in reversed(found)}
    return [write for kind, write in new.items() if kind not in known]


def kind_of(write: Write) -> Write:
    """Return what is the same for writes that only differ in the file, or in who asked for it."""
    return replace(write, number=0, place=write.place.partition(" of ")[0])


def problems(
    name: str,
    projects: Path,
    builds: Path,
    folder: Path,
    at: Sequence[Write],
    *,
    warm: bool = False,
) -> list[str]:
    """Kill builds at writes, and build again; return what is wrong."""

    def try_one(number: int, write: Write) -> list[str]:
        case = KINDS[name](projects, folder / str(number))
        if warm:
            shutil.copytree(builds / name / "begin", case.folder, dirs_exist_ok=True)
        wrong = problems_of(case, write, builds / name / "cold")
        found = [f"{write}: {problem}" for problem in wrong]
        shutil.rmtree(case.folder)
        return found

    with ThreadPoolExecutor(AT_ONCE) as threads:
        return [each for found in threads.map(try_one, count(), at) for each in found]


def problems_of(case: Case, write: Write, expected: Path) -> Iterator[str]:
    before, after = tree_of(case.folder / "out"), tree_of(expected / "out")
    if not case.run(write):
        yield "the write was not reached"
    found = folder_of(tree_of(case.folder / "out"))
    if found not in (folder_of(before), folder_of(after)):
        yield f"the output is neither the old one nor the new one: {sorted(found)}"
    case.run()
    if tree_of(case.folder / "out") != after:
        yield "the output is another one"
    if case.leftovers():
        yield f"left over: {case.leftovers()}"
    kept, wanted = entries_of(case.stores), entries_of(expected / "stores")
    if kept != wanted:
        yield f"in the store: {sorted(kept ^ wanted)}"
    names = {str(path.relative_to(case.stores)) for path in case.stores.glob("*/*")}
    if names != {
        str(path.relative_to(expected / "stores")) for path in expected.glob("stores/*/*")
    }:
        yield f"beside the entries: {sorted(names)}"


def folder_of(output: dict[str, bytes]) -> dict[str, bytes]:
    """Return what users see: without temporary folders."""
    return {name: data for name, data in output.items() if name.startswith("_aot/")}


def entries_of(stores: Path) -> set[str]:
    """Return the entries of all layers by path, each of which must be whole.

    Whole builds are left out: what is left of a killed build is none.
    """
    found = set()
    for layer in stores.iterdir():
        finished = finished_in(layer)
        keys = (item.key for item in survey(layer) if item.path not in finished)
        found.update(f"{layer.name}/{key}" for key in keys)
    return found


def finished_in(layer: Path) -> list[Path]:
    """Return the entries of whole builds."""
    items = [(item.path, read_entry(item.path.read_bytes(), item.key)) for item in survey(layer)]
    return [p for p, each in items if str(each.facts.get("entry")).startswith(("build", "blob"))]
