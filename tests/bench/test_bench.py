"""`aotbuild bench`: what is measured of a package, in fresh processes, and what is not and why."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from attacks import wheels
from support import packages
from support.cli import run

from aotbuild.bench.forms import JIT, OLD, PORTABLE, WHEEL, Package, Subject, subjects
from aotbuild.bench.measure import Measured, Run
from aotbuild.cli.exit_codes import UNUSABLE, USAGE
from aotbuild.report.facts import read_facts
from aotbuild.runtime.locate import locate

CODE = """
import jax

@jax.jit
def scaled(tree, k):
    return {"y": tree["a"] * k + tree["b"][0]}
"""
TREE = {"a": np.zeros(3, np.float32), "b": [np.zeros(3, np.float32)]}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an executable of a function that can be imported, and its portable form."""
    root = tmp_path_factory.mktemp("bench")
    scaled = packages.build(
        *("scaled", lambda tree, k: {"y": tree["a"] * k + tree["b"][0]}, {"tree": TREE}),
        statics={"k": 3}, call="bench_source:scaled",
    )  # fmt: skip
    built = [*wheels.make_records(), scaled]
    return wheels.write_folder(root / "demo" / "_aot", wheels.aot_files(built))


def package(place: Path) -> Package:
    return Package(str(place), tuple(read_facts(locate(place)).records))


def test_what_is_measured(place: Path) -> None:
    ours = package(place)
    found = {each.record.function: each for each in subjects(ours, ours)}
    assert set(found["double"].forms) == {WHEEL, JIT, PORTABLE, OLD}
    why = "the package has no portable form of this signature"
    assert found["scaled"].missing == {PORTABLE: why}
    assert [each.record.function for each in subjects(ours, functions=["scaled"])] == ["scaled"]
    (alone,) = subjects(ours, Package("x", ()), ["scaled"])
    assert "no executable of this signature" in alone.missing[OLD]


def test_medians_and_ratios(place: Path) -> None:
    subject = Subject(package(place).records[0], {}, {})
    runs = {
        WHEEL: [Run(1.0, 1.0, 5.0, 10.0), Run(2.0, 2.0, 1.0, 30.0), Run(90.0, 90.0, 3.0, 20.0)],
        JIT: [Run(30.0, 10.0, 1.0, 1.0)],
    }
    measured = Measured(subject, runs, {PORTABLE: "no"})
    assert measured.middle(WHEEL) == Run(2.0, 2.0, 3.0, 20.0)
    assert (measured.ratio(JIT), measured.ratio(PORTABLE)) == (10.0, None)
    forms = measured.to_json()["forms"]
    assert forms[PORTABLE] == {"skipped": "no"}
    assert len(forms[WHEEL].pop("runs")) == 3
    assert forms[WHEEL]["load_ms"] == 2.0


@pytest.mark.process
def test_every_form_is_measured(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bench_source.py").write_text(CODE)
    monkeypatch.syspath_prepend(str(tmp_path))
    names = ("--function", "double", "--function", "scaled")
    result = run("bench", place, "--runs", "1", *names, "--compare", place, "--json")
    found = {each["function"]: each for each in json.loads(result.stdout)["executables"]}
    double, scaled = found["double"]["forms"], found["scaled"]["forms"]
    assert double[JIT]["skipped"].startswith("nowhere:nothing cannot be imported here: ")
    assert scaled[PORTABLE]["skipped"] == "the package has no portable form of this signature"
    for form in (double[WHEEL], double[PORTABLE], double[OLD], scaled[WHEEL], scaled[JIT]):
        assert all(form[name] > 0 for name in ("load_ms", "first_ms", "steady_ms"))
        (run_alone,) = form["runs"]
        assert run_alone["load_ms"] == form["load_ms"]
    assert double[WHEEL]["ratio"] == 1.0
    assert found["scaled"]["statics"] == "k=3"


@pytest.mark.process
def test_what_does_not_run_here(tmp_path: Path) -> None:
    product = wheels.make_records()[1]
    files = wheels.aot_files([product.replace(jaxlib="0.0.1")])
    place = wheels.write_folder(tmp_path / "demo" / "_aot", files)
    result = run("bench", place, "--runs", "1", code=UNUSABLE)
    assert "wheel: not measured for product" in result.stdout
    assert "jaxlib: expected 0.0.1, found " in result.stdout
    result = run("bench", place, "--function", "produkt", code=USAGE)
    assert "the package has no function 'produkt'; it has product" in result.stderr
