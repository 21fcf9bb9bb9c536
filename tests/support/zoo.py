"""The zoo: programs of public libraries, their environments, and how one is built and compared."""

from __future__ import annotations

import json
import os
import re
import subprocess
import tomllib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import yaml

from aotbuild.toolchains.uv import run_uv
from support.installs import pip
from support.processes import ROOT, TESTS, clean_environment
from support.projects import copy_project

ZOO = TESTS / "zoo"
PROGRAMS = ZOO / "programs"
VERSIONS = ("oldest", "newest")
# XLA orders sums for the CPU that it compiles for: the level of a wheel, the host itself under jit.
TOLERANCE = 1e-5
ADDRESS = re.compile(r"0x[0-9a-f]+")


@dataclass(frozen=True)
class Program:
    """A project below `programs`; `[tool.zoo]` of its pyproject.toml says what is known of it.

    `part`: it is in the part that CI runs. `missing`, `fails`: by version, why a library does not
    run there even under jit, or why the program does not go through. `tolerance`: by function,
    how far results may be from those of jit where `TOLERANCE` is too little.
    """

    folder: Path

    @property
    def name(self) -> str:
        return self.folder.name

    @cached_property
    def project(self) -> dict[str, Any]:
        return tomllib.loads((self.folder / "pyproject.toml").read_text())

    @cached_property
    def manifest(self) -> dict[str, Any]:
        manifest: dict[str, Any] = yaml.safe_load((self.folder / "aot.yaml").read_text())
        return manifest

    @property
    def known(self) -> dict[str, Any]:
        return dict(self.project.get("tool", {}).get("zoo", {}))

    @property
    def libraries(self) -> list[str]:
        return list(self.project["tool"]["hatch"]["metadata"]["hooks"]["aotbuild"]["dependencies"])

    @property
    def functions(self) -> list[str]:
        return list(self.manifest["functions"])

    @property
    def devices(self) -> int:
        """Return how many devices its functions need."""
        manifest = self.manifest
        meshes = [options.get("mesh", {}) for options in manifest["functions"].values()]
        targets = [target.get("cpu", {}) for target in manifest.get("targets", [])]
        own = [int(target.get("devices", 1)) for target in targets]
        return max([1, *own, *(int(np.prod(list(mesh.values()))) for mesh in meshes)])

    def tolerance(self, function: str) -> float:
        return float(self.known.get("tolerance", {}).get(function, TOLERANCE))

    def reason(self, kind: str, version: str) -> str | None:
        """Return why the program is `missing` or `fails` on a version; None if it does not."""
        reason = self.known.get(kind)
        return reason.get(version) if isinstance(reason, dict) else reason


def find_programs() -> list[Program]:
    return [Program(path.parent) for path in sorted(PROGRAMS.glob("*/pyproject.toml"))]


def make_environment(folder: Path, version: str, python: Path, libraries: list[str]) -> Path:
    """Make an environment with some of the zoo's libraries, as they are pinned; return its Python.

    It has this checkout of aotbuild, and pip.
    """
    pinned = ZOO / f"requirements-{version}.txt"
    run_uv(("venv", "--quiet", "--python", python, folder), ROOT)
    options = ("pip", "install", "--quiet", "--python", folder / "bin" / "python")
    ours = (f"{ROOT}[build,jax]", "pip")
    run_uv((*options, "--constraint", pinned, *sorted(libraries), *ours), ROOT)
    run_uv((*options, "--no-deps", "--editable", ROOT), ROOT)
    return folder / "bin" / "python"


@dataclass(frozen=True)
class Built:
    """A program's wheel, installed into a folder of its own."""

    program: Program
    python: Path
    work: Path
    wheel: Path

    @property
    def site(self) -> Path:
        return self.work / "site"


def build_and_install(program: Program, python: Path, work: Path) -> Built:
    """Build a program's wheel with pip, and install it where no source of it is."""
    options = ("--quiet", "--no-deps")
    wheels = work / "wheels"
    wheels.mkdir(parents=True)
    building = ("wheel", *options, "--no-build-isolation", "-w", wheels)
    found = "import importlib.metadata as m; print(m.version('jax'))"
    jax = subprocess.check_output([python, "-c", found], text=True).strip()
    try:
        pip(python, *building, copy_project(program.folder, work, jax), links=wheels)
    except subprocess.CalledProcessError as error:
        msg = f"the wheel of {program.name} was not built:\n{error.output}"
        raise AssertionError(msg) from None
    (wheel,) = wheels.glob("*.whl")
    pip(python, "install", *options, "--target", work / "site", wheel, links=wheels)
    return Built(program, python, work, wheel)


def verify(built: Built) -> str:
    """Return what `aotbuild verify` says of what was installed; empty if nothing failed."""
    (place,) = built.site.rglob("_aot")
    flags = f"--xla_force_host_platform_device_count={built.program.devices}"
    environment = clean_environment(PYTHONPATH=str(built.site), XLA_FLAGS=flags)
    command = [built.python, "-m", "aotbuild", "verify", place]
    done = subprocess.run(
        command, cwd=built.work, env=environment, capture_output=True, text=True, check=False
    )
    return done.stdout + done.stderr if done.returncode else ""


@dataclass(frozen=True)
class Outcome:
    """How a function of a wheel compares with jit.

    `seconds` are those of the first call: under jit, of the wheel with jax's arrays, and with
    numpy's (None where arguments or results are trees that only jax knows).
    """

    function: str
    differences: list[str]
    calls: int
    is_same_bits: bool
    seconds: dict[str, float | None]


def compare(built: Built) -> list[Outcome]:
    """Call all functions from fresh processes, of the wheel and under jit, and compare."""
    jit, aot = _call(built, "jit"), _call(built, "aot")
    numpy = _call(built, "numpy") if list(built.work.glob("calls/*/calls.json")) else {}
    return [
        _outcome(built, name, jit[name], aot[name], numpy.get(name))
        for name in built.program.functions
    ]


def _outcome(built: Built, name: str, jit: Any, aot: Any, numpy: Any) -> Outcome:
    out = built.work / "calls" / name
    found, expected = _leaves(out / "aot.npz"), _leaves(out / "jit.npz")
    differences = _differences(built.program, name, found, expected)
    if ADDRESS.sub("", aot["tree"]) != ADDRESS.sub("", jit["tree"]):
        differences.append(f"tree: {aot['tree']} instead of {jit['tree']}")
    if aot["events"]:
        differences.append(f"it compiled: {aot['events']}")
    if numpy:
        again = _leaves(out / "numpy.npz"), _leaves(out / "expected.npz")
        differences += [f"numpy: {text}" for text in _differences(built.program, name, *again)]
    return Outcome(
        function=name,
        differences=differences,
        calls=aot["calls"],
        is_same_bits=all(map(_is_same, found, expected)),
        seconds={"jit": jit["first"], "jax": aot["first"], "numpy": numpy and numpy["first"]},
    )


def _call(built: Built, mode: str) -> dict[str, Any]:
    """Run all functions in a fresh process; return what it says of each."""
    out = built.work / "calls"
    out.mkdir(exist_ok=True)
    flags = f"--xla_force_host_platform_device_count={built.program.devices}"
    command = [built.python, ZOO / "call.py", mode, built.program.folder, out]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        env=clean_environment(PYTHONPATH=str(built.site), XLA_FLAGS=flags),
        cwd=out,
        timeout=1800,
    )
    assert done.returncode == 0, f"{mode}: exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    reports: dict[str, Any] = json.loads((out / f"{mode}.json").read_text())
    return reports


def _leaves(path: Path) -> list[Any]:
    with np.load(path) as file:
        names = [str(name) for name in file["dtypes"]]
        arrays = [file[f"arr_{place}"] for place in range(len(names))]
    own = (getattr(ml_dtypes, name, None) for name in names)
    return [a.view(t) if t and a.dtype != t else a for a, t in zip(arrays, own, strict=True)]


def _differences(program: Program, name: str, found: list[Any], expected: list[Any]) -> list[str]:
    """Return what differs by more than the program's tolerance for a function."""
    if len(found) != len(expected):
        return [f"{len(found)} leaves instead of {len(expected)}"]
    tolerance = program.tolerance(name)
    pairs = enumerate(zip(found, expected, strict=True))
    texts = [(place, _difference(one, other, tolerance)) for place, (one, other) in pairs]
    return [f"leaf {place}: {text}" for place, text in texts if text]


def _difference(found: Any, expected: Any, tolerance: float) -> str | None:
    if (found.dtype, found.shape) != (expected.dtype, expected.shape):
        return f"{found.dtype}{found.shape} instead of {expected.dtype}{expected.shape}"
    if _is_same(found, expected):
        return None
    kind = np.complex128 if found.dtype.kind == "c" else np.float64
    one, other = found.astype(kind), expected.astype(kind)
    if np.allclose(one, other, rtol=tolerance, atol=tolerance, equal_nan=True):
        return None
    return f"differs by up to {np.nanmax(abs(one - other))}"


def _is_same(found: Any, expected: Any) -> bool:
    same = (found.dtype, found.shape) == (expected.dtype, expected.shape)
    return same and bool(found.tobytes() == expected.tobytes())


def results_folder() -> Path:
    return Path(os.environ.get("ZOO_RESULTS", ROOT / ".zoo"))
