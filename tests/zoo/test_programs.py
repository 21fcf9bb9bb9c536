"""Programs of public libraries: built into wheels, and called in fresh processes as under jit."""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path

import pytest
from support.processes import ROOT
from support.shared import made_once
from support.zoo import (
    VERSIONS,
    Program,
    build_and_install,
    compare,
    find_programs,
    make_environment,
    results_folder,
    verify,
)

pytestmark = pytest.mark.zoo

# The version of jax that this environment's Python is tested with in CI.
HERE = "oldest" if sys.version_info < (3, 12) else "newest"
CASES = [(version, program) for version in VERSIONS for program in find_programs()]


def is_in_part(version: str, program: Program) -> bool:
    return version == HERE and program.known.get("part", False)


@pytest.fixture(scope="module")
def part_python(run: Path) -> Path:
    """The Python of an environment with the libraries of the part that CI runs."""
    libraries = sorted({x for v, p in CASES if is_in_part(v, p) for x in p.libraries})
    python = Path(sys.executable)
    made = made_once(run / "zoo-libraries", lambda f: make_environment(f, HERE, python, libraries))
    return made / "bin" / "python"


@pytest.fixture
def zoo_python(request: pytest.FixtureRequest, version: str, program: Program) -> Path:
    """The Python with the libraries: of `make zoo`, or of the part that runs without it."""
    if version in request.config.getoption("--zoo"):
        return ROOT / f".venv-zoo-{version}" / "bin" / "python"
    if not is_in_part(version, program):
        pytest.skip("not in the part that runs without --zoo")
    python: Path = request.getfixturevalue("part_python")
    return python


@pytest.mark.parametrize(
    ("version", "program"), CASES, ids=lambda case: getattr(case, "name", case)
)
def test_program_equals_jit_and_compiles_nothing(
    version: str, program: Program, zoo_python: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if reason := program.reason("missing", version):
        pytest.skip(reason)
    if reason := program.reason("fails", version):
        request.applymarker(pytest.mark.xfail(reason=reason, strict=True))
    built = build_and_install(program, zoo_python, tmp_path)
    outcomes = compare(built)
    assert {
        outcome.function: outcome.differences for outcome in outcomes if outcome.differences
    } == {}
    assert verify(built) == ""
    if version in request.config.getoption("--zoo"):
        place = results_folder() / version / f"{program.name}.json"
        place.parent.mkdir(parents=True, exist_ok=True)
        rows = [dataclasses.asdict(outcome) for outcome in outcomes]
        place.write_text(json.dumps({"size": built.wheel.stat().st_size, "functions": rows}))
