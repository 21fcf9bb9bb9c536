"""`verify --against-jit`: executables beside their source, in numbers and times."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from attacks import wheels
from support import packages
from support.cli import run
from support.packages import Built

from aotbuild.cli.exit_codes import FAILED, USAGE
from aotbuild.verify.outcome import Comparison

pytestmark = pytest.mark.process

SOURCE = """
import os, jax

@jax.jit
def scaled(tree, power, k, *, shift):
    return {"y": tree["a"] * k + shift, "b": tree["b"][0] + 1, "z": power}
def count(x):
    return x * 2
def near(x):
    return x * 1.00001
def end(x):
    os._exit(3)
"""
FLOATS, INTS = np.zeros(3, np.float32), np.zeros(6000, np.int32)


def scaled(tree: Any, power: Any, k: int, shift: Any) -> Any:
    return {"y": tree["a"] * k + shift, "b": tree["b"][0] + 1, "z": power}


def built(name: str, fn: Callable[..., Any], call: str, *args: Any, **options: Any) -> Built:
    return packages.build(name, fn, *args, call=f"jit_source:{call}", **options)


@pytest.fixture(scope="module")
def functions() -> list[Built]:
    tree = {"a": FLOATS, "b": [FLOATS]}
    compiled = [
        built(
            "scaled",
            scaled,
            "scaled",
            {"tree": tree, "power": 2.0},
            {"shift": FLOATS},
            statics={"k": 3},
            donate=["tree"],
        ),
        built("near", lambda x: x, "near", {"x": FLOATS}),
        built("ends", lambda x: x, "end", {"x": FLOATS}),
        built("same", lambda x: x * 2, "count", {"x": INTS}),
        built("doubled", lambda x: x * 4, "count", {"x": INTS}),
        built("nowhere", lambda x: x, "missing", {"x": FLOATS}),
    ]
    floats = {"provenance": {"floats": ["float32"]}}
    return [
        each
        if each.function.name in ("same", "doubled")
        else dataclasses.replace(each, record=dataclasses.replace(each.record, **floats))
        for each in compiled
    ]


def test_one_table_of_numbers_and_times(
    functions: list[Built], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "jit_source.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(str(tmp_path))
    place = wheels.write_folder(tmp_path / "demo" / "_aot", wheels.aot_files(functions))
    result = run("verify", place, "--against-jit", "--json", code=FAILED)
    document = json.loads(result.stdout)
    found = {each["function"]: each for each in document["against_jit"]}
    jit = {
        each["subject"].replace("[k=3]", "").split()[0]: (each["status"], " ".join(each["reasons"]))
        for each in document["checks"]
        if each["check"] == "jit"
    }
    assert jit.keys() == {"scaled", "near", "ends", "same", "doubled", "nowhere"}
    assert {name for name, (status, _) in jit.items() if status == "PASS"} == {
        *("scaled", "near", "same"),
    }
    # A process of its own: what ends one costs one.
    assert jit["ends"] == ("CRASHED", "the process ended with 3: ")
    assert jit["doubled"][0] == "FAIL"
    assert "its source under jax.jit" in jit["doubled"][1]
    assert jit["nowhere"][0] == "NOT CHECKED"
    assert "jit_source:missing cannot be imported here" in jit["nowhere"][1]
    assert found.keys() == {"scaled", "near", "same", "doubled"}
    assert {name: found[name]["error"] for name in ("scaled", "same")} == {"scaled": 0, "same": 0}
    assert 0.01 < found["near"]["error"] < 1
    assert found["doubled"]["error"] is None
    for each in found.values():
        assert each["ratio"] == each["aot_seconds"] / each["jit_seconds"] > 0
        assert each["tuned"] is None
    assert (found["scaled"]["statics"], found["scaled"]["target"]) == (
        "k=3",
        f"cpu:{packages.ISA}:1",
    )


def test_the_exit_code_tells_of_numbers(
    functions: list[Built], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "jit_source.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(str(tmp_path))
    same = [each for each in functions if each.function.name == "same"]
    place = wheels.write_folder(tmp_path / "demo" / "_aot", wheels.aot_files(same))
    lines = run("verify", place, "--against-jit").stdout.splitlines()
    (row,) = (line for line in lines if line.startswith("same ") and " ms " in line)
    assert row.endswith("none")
    result = run("verify", place, "--against-jit", "--no-run", code=USAGE)
    assert "exclude each other" in result.stderr


def test_what_is_tuned(functions: list[Built]) -> None:
    record = functions[0].record
    for provenance, tuned in (({}, None), ({"choices": {"tuned": "9 of 28"}}, "9 of 28")):
        compared = Comparison(dataclasses.replace(record, provenance=provenance), 2.0, 4.0, 0.5)
        assert (compared.tuned, compared.ratio) == (tuned, 0.5)
