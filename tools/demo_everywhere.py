"""One build of the language model for a GPU, a TPU and CPUs of two levels, and its HTML page."""

import json
import platform
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

from demo_commands import DEMO, ROOT, run, stream

PROJECT = ROOT / "example_project" / "lm"
MANIFEST = PROJECT / "aot.everywhere.yaml"
PAGE = DEMO / "tinylm.html"
MADE = re.compile(r"^made in ([\d.]+) s$", re.MULTILINE)


def build(python: str) -> list[str]:
    """Build, write the page; return the lines that say what was built, and where the page is."""
    if platform.machine() != "x86_64":
        return [f"  not built: the compiler for TPUs needs x86-64, this is {platform.machine()}"]
    out = DEMO / "everywhere" / "_aot"
    aotbuild = (python, "-P", "-m", "aotbuild")
    options = ("--json", "--root", str(PROJECT), "--out", str(out))
    printed, said, seconds = stream([*aotbuild, "build", str(_manifest(aotbuild)), *options])
    made = sum(map(float, MADE.findall(said)))
    run([*aotbuild, "inspect", str(out), "--html", str(PAGE)])
    installed = (
        f"not counting {made:.0f} s for installing their compilers"
        if made
        else ("with compilers that an earlier build installed")
    )
    return [
        *_targets(json.loads(printed)["units"]),
        f"  {seconds - made:.0f} s for all of them, {installed}",
        f"  page: {PAGE.relative_to(ROOT)}",
    ]


def _manifest(aotbuild: Iterable[str]) -> Path:
    """Return the manifest; where this CPU is below x86-64-v4, one with a level that it can make.

    jax before 0.11.2 compiles for the levels up to that of the machine.
    """
    host = json.loads(run([*aotbuild, "doctor", "--json"]))["host"]
    if host["isa"].startswith("x86-64-v4"):
        return MANIFEST
    lower = DEMO / MANIFEST.name
    lower.write_text(MANIFEST.read_text().replace("x86-64-v4", "x86-64-v2+avx"))
    return lower


def _targets(units: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yield a line for each target: its functions and the sizes of their executables."""
    for target, found in groupby(sorted(units, key=_target), key=_target):
        sizes = (f"{unit['function']} {unit['size'] / 1e6:.1f} MB" for unit in found)
        yield f"  {target:<20}{', '.join(sizes)}"


def _target(unit: Mapping[str, Any]) -> str:
    return str(unit["target"])
