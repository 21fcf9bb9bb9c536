"""All targets of a signature come from one program, whichever processes traced it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from textwrap import indent

import pytest
from support.cli import run
from support.direct import Place
from support.processes import ROOT
from support.projects import MANIFEST, write_project

from aotbuild.build.pack import Package
from aotbuild.errors import BuildError, UnitFailure
from aotbuild.store.contents import survey
from aotbuild.store.kinds import count_kinds

pytestmark = [pytest.mark.process, pytest.mark.any_jax]

# With every jax, targets for other numbers of CPUs are made by other processes.
BOTH = "[{cpu: {isa: x86-64-v2+avx}}, {cpu: {isa: x86-64-v3}}]"
ONE = "[{cpu: {isa: x86-64-v2+avx}}]"
TARGETS = ("cpu:x86-64-v2+avx:1", "cpu:x86-64-v3:1")

# What a module does while it is imported, and what its function makes of it.
CHANGING = {
    "draws": (
        "import numpy as np\nW = np.random.default_rng().normal(size=3).astype('f4')\n"
        "def f(x): return x * W"
    ),
    "clock": "import time\nSTAMP = time.time_ns() % 10**9\ndef f(x): return x + STAMP",
    "urandom": "import os\nKEY = os.urandom(3)\ndef f(x): return x + KEY[0] - KEY[1] * KEY[2]",
    "process": "import os\nPID = os.getpid()\ndef f(x): return x + PID",
    "loops": (
        "import random\nMANY = random.Random().randrange(10**6)\n"
        "def f(x):\n    for bit in bin(MANY): x = x * 2 if bit == '1' else x + x\n    return x"
    ),
}
SAME = {
    "seeded": (
        "import numpy as np\nW = np.random.default_rng(0).normal(size=3).astype('float32')\n"
        "def f(x): return x * W"
    ),
    "logs": "import time\nSTARTED = time.time()\ndef f(x): return x * 2",
    # Other processes may round the last digit of what XLA computes otherwise.
    "computed": (
        "import jax\nW = jax.random.normal(jax.random.key(0), (2000, 3)).sum(0)\n"
        "def f(x): return x * W"
    ),
    # Settings that differ by target may decide: here, the number of CPUs that XLA is told.
    "by_target": (
        "import os\nW = float(len(os.sched_getaffinity(0)))\n"
        "def f(x): return x * W if W > 2 else x + W"
    ),
}


def manifest(names: Iterable[str], targets: str = BOTH, more: str = "") -> str:
    lines = [
        f'  {name}: {{call: "proj.{name}:f", args: [{{x: "f32[3]"}}]{more}}}' for name in names
    ]
    head = "version: 1\npackage: proj\ndefaults: {verify: {golden: never}}\n"
    return f"{head}targets: {targets}\nfunctions:\n" + "\n".join(lines) + "\n"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    return Place(tmp_path, monkeypatch)


def refused(place: Place) -> dict[str, list[UnitFailure]]:
    """Build; return the failures of each function."""
    with pytest.raises(BuildError) as caught:
        place.build()
    found: dict[str, list[UnitFailure]] = {}
    for failure in caught.value.failures:
        found.setdefault(failure.unit.partition("(")[0], []).append(failure)
    return found


def traces(package: Package, name: str) -> list[object]:
    return [r.provenance["trace"] for r in package.records if r.function == name]


def kinds(place: Place) -> dict[str, int]:
    found = count_kinds(survey(place.store).entries)
    return {name: row["entries"] for name, row in found.items()}


def test_what_differs_from_process_to_process_is_refused(place: Place) -> None:
    write_project(place.root, manifest([*CHANGING, "seeded"]), **CHANGING, seeded=SAME["seeded"])
    found = refused(place)
    assert found.keys() == CHANGING.keys()
    for name, failures in found.items():
        assert [failure.unit for failure in failures] == [f"{name}() for {t}" for t in TARGETS]
        assert {failure.stage for failure in failures} == {"trace"}
        assert len({failure.message for failure in failures}) == 1
    lines = found["draws"][0].message.splitlines()
    assert lines[0] == "proj.draws:f is traced to different programs in different processes"
    assert lines[1:4] == [
        f"  program 1, for {TARGETS[0]}",
        f"  program 2, for {TARGETS[1]}: other constants",
        f"  program 3, for {TARGETS[0]}, traced again: other constants",
    ]
    assert lines[4:7] == [
        "  proj.draws.W differs",
        f"    at {place.root}/proj/draws.py:2 in <module>",
        "      W = np.random.default_rng().normal(size=3).astype('f4')",
    ]
    assert lines[7].endswith("Seed it, load the value from a file, or pass it as an argument.")
    shown = found["draws"][0].message.replace(str(place.root), "…")
    assert indent(shown, "    ") in (ROOT / "docs" / "reference" / "errors.md").read_text()
    assert "  proj.clock.STAMP differs" in found["clock"][0].message
    assert f"program 2, for {TARGETS[1]}: other operations" in found["loops"][0].message


def test_what_depends_on_the_target_is_not_refused(place: Place) -> None:
    write_project(place.root, manifest(SAME), **SAME)
    traced, package = place.build()
    assert traced == {f"{name}()" for name in SAME}
    first, second = traces(package, "by_target")
    assert first != second
    for name in ("seeded", "logs"):
        first, second = traces(package, name)
        assert first == second
    known = kinds(place)["traced again"]
    assert known in (1, 2), "by_target, and where XLA rounds otherwise, computed"
    assert place.build()[0] == set()
    assert kinds(place)["traced again"] == known


def test_an_executable_of_an_earlier_build(place: Place) -> None:
    """One target is found in the store, and the other one is traced now."""
    write_project(place.root, manifest(["draws", "seeded"], ONE), draws=CHANGING["draws"], **SAME)
    place.build()
    assert place.build()[0] == set()
    place.write(MANIFEST, manifest(["draws", "seeded"]))
    assert refused(place).keys() == {"draws"}
    place.write(MANIFEST, manifest(["draws"], ONE))
    assert place.traced() == {"draws"}, "what was kept for the first target is gone, too"


def test_hoisted_constants_and_portable_forms(place: Place) -> None:
    text = manifest(
        ["draws"], more=", constants: hoist, config: {jax_embedded_constants_max_bytes: 0}"
    )
    portable = (
        '  any: {call: "proj.draws:f", args: [{x: "f32[n,3]"}], dims: {n: [1]}, '
        "export: {dims: {n: n}}}\n"
    )
    targets = BOTH.replace("]", ", {portable: {platforms: [cpu]}}]")
    write_project(place.root, text.replace(BOTH, targets) + portable, draws=CHANGING["draws"])
    found = refused(place)
    assert len(found["draws"]) == len(found["any"]) == 3


def test_the_command(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    write_project(place.root, manifest(["draws", "seeded"]), draws=CHANGING["draws"], **SAME)
    monkeypatch.chdir(place.root)
    error = run("build", code=4).stderr
    assert "2 of 4 build units failed, nothing was packaged" in error
    assert error.count("proj.draws:f is traced to different programs") == 1
