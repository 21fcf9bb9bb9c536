"""A build that finds everything in the store, beside hatchling's of the same project.

`pip wheel --no-build-isolation --no-deps` makes the wheel of the example project in this
environment, without the network: with its hook, which compiles nothing after the first build, and
as a project without it. The two take turns. Of both, wall time and CPU time are the medians; the
ratio of wall times is the median of the pairs'. `many`: the same with over 150 units.
"""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.building.pairs import Ratio, Taken, cpu_ratio, taken, variables, wall_ratio
from benchmarks.places import ROOT

# Each is a unit for the CPU and one for the portable form.
_MANY = "1..75"
_EXAMPLE = ROOT / "example_project"
_WHEEL = ("-m", "pip", "wheel", "--quiet", "--no-build-isolation", "--no-deps", "--no-index")


def write_projects(root: Path, sizes: str = "[1, 32]") -> tuple[Path, Path]:
    """Copy the example project, once as it is and once without the hook; return both folders.

    `sizes` are the batch sizes of one function, `embed`.
    """
    hooked, plain = root / "hooked", root / "plain"
    for folder in (hooked, plain):
        shutil.copytree(_EXAMPLE, folder, ignore=shutil.ignore_patterns("lm", "_aot", "dist"))
    manifest = hooked / "aot.yaml"
    text = re.sub(r"\{jax: [0-9.]+\}", f"{{jax: {version('jax')}}}", manifest.read_text())
    text = text.replace("{batch: [1, 32]}", f"{{batch: {sizes}}}")
    manifest.write_text(text)  # the installed jax, so that uv makes no environment
    (plain / "aot.yaml").unlink()
    file = plain / "pyproject.toml"
    file.write_text(without_hook(file.read_text(encoding="utf-8")), encoding="utf-8")
    return hooked, plain


def without_hook(pyproject: str) -> str:
    """Return the pyproject.toml of the example as that of a project built by hatchling alone."""
    text = re.sub(r'requires = \["(hatchling[^"]*)".*\]', r'requires = ["\1"]', pyproject)
    text = text.replace("hatch_aotbuild.backend", "hatchling.build")
    text = text.replace('dynamic = ["dependencies"]', 'dependencies = ["numpy"]')
    tables = re.split(r"^(?=\[)", text, flags=re.MULTILINE)
    return "".join(table for table in tables if "hooks.aotbuild]" not in table)


def build(project: Path, out: Path, store: Path) -> Taken:
    """Make the wheel of a project; its processes are over when this returns."""
    command = [sys.executable, *_WHEEL, "--wheel-dir", str(out), str(project)]
    with variables(AOTBUILD_STORE=str(store)):
        return taken(command, out)


def measure(quick: bool) -> dict[str, Any]:
    """Build both projects in turns, after a first time that fills the store."""
    rounds = 2 if quick else 15
    return {**_measured("[1, 32]", rounds), "many": _measured(_MANY, 2 if quick else 7)}


def _measured(sizes: str, rounds: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        hooked, plain = write_projects(root, sizes)
        store, out = root / "store", root / "out"
        out.mkdir()
        first = build(hooked, out, store)
        for project in (hooked, plain):
            build(project, out, store)
        pairs = [(build(hooked, out, store), build(plain, out, store)) for _ in range(rounds)]
    return {
        "first_s": first.wall,
        "noop_s": median(ours.wall for ours, _ in pairs),
        "plain_s": median(theirs.wall for _, theirs in pairs),
        "noop_cpu_s": median(ours.cpu for ours, _ in pairs),
        "plain_cpu_s": median(theirs.cpu for _, theirs in pairs),
        "ratio": asdict(wall_ratio(pairs)),
        "cpu_ratio": asdict(cpu_ratio(pairs)),
    }


def describe(row: dict[str, Any]) -> str:
    """Return what was measured, for people."""
    many = f"\nmany units\n{describe(row['many'])}" if "many" in row else ""
    return (
        f"with an empty store: {row['first_s']:.1f} s\n"
        f"nothing to compile:  {row['noop_s']:.3f} s, CPU {row['noop_cpu_s']:.3f} s\n"
        f"without the hook:    {row['plain_s']:.3f} s, CPU {row['plain_cpu_s']:.3f} s\n"
        f"ratio {Ratio(**row['ratio'])}, of CPU time {Ratio(**row['cpu_ratio'])}{many}"
    )
