"""All functions of benchmarks/gpu, built for an H100 without one and without tuning.

XLA chooses blindly where it cannot measure. No executable may hold such a choice.
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.processes import ROOT
from support.toolchains import cross_environment

from aotbuild.build.pack import build_package
from aotbuild.build.plan import make_plan
from aotbuild.build.sources import find_sources
from aotbuild.errors import BuildError, UnitFailure
from aotbuild.manifest import load_manifest

pytestmark = [pytest.mark.wheel, pytest.mark.any_jax]

BENCH = ROOT / "benchmarks" / "gpu"
MANIFESTS = ("aot", "convolutions")
Built = tuple[dict[str, dict[str, Any]], tuple[UnitFailure, ...]]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Built]:
    """Return by manifest what XLA chose for each function, and what is refused."""
    folder = tmp_path_factory.mktemp("gpu")
    root = Path(shutil.copytree(BENCH, folder / "project"))
    return {name: build(root, folder, name) for name in MANIFESTS}


def build(root: Path, folder: Path, name: str) -> Built:
    file = root / f"{name}.yaml"
    plan = make_plan(load_manifest(file), cross_environment("cuda"))
    sources, out = find_sources(root, "gpu_bench"), folder / name / "_aot"
    try:
        package = build_package(plan, sources, out)
    except BuildError as err:
        failed = {failure.unit.partition("(")[0] for failure in err.failures}
        kept = tuple(unit for unit in plan.units if unit.name not in failed)
        if not kept:
            return {}, err.failures
        refused = err.failures
        package = build_package(replace(plan, units=kept), sources, out)
    else:
        refused = ()
    return {r.function: r.provenance.get("choices", {}) for r in package.records}, refused


def test_everything_but_convolutions_is_built(built: dict[str, Built]) -> None:
    found, refused = built["aot"]
    assert not refused
    functions = yaml.safe_load((BENCH / "aot.yaml").read_text())["functions"]
    assert list(found) == list(functions)


def test_convolutions_are_built_or_refused_with_the_remedy(built: dict[str, Built]) -> None:
    found, refused = built["convolutions"]
    wanted = yaml.safe_load((BENCH / "convolutions.yaml").read_text())["functions"]
    assert {*found, *(failure.unit.partition("(")[0] for failure in refused)} == set(wanted)
    assert all("aotbuild tune" in failure.message for failure in refused)


def test_no_untuned_triton_matmul(built: dict[str, Built]) -> None:
    choices = {name: each for found, _ in built.values() for name, each in found.items()}
    assert any("library_matmuls" in each for each in choices.values())
    assert not [name for name, each in choices.items() if "triton_matmuls" in each]
