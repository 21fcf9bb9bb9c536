"""A program is recorded, built from what was recorded, and runs again without compiling."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.processes import fresh
from support.projects import build, write_project

from aotbuild.manifest import load_manifest
from aotbuild.record.call_log import read_call_log
from aotbuild.record.proposal import propose

pytestmark = pytest.mark.process

MODEL = """
import functools

import jax
import jax.numpy as jnp
import numpy as np
from typing import Any, NamedTuple


class State(NamedTuple):
    count: Any
    params: Any


START = State(0, np.ones(3, "float32"))
WARM = State(jnp.zeros((), "int32"), jnp.ones(3))


@jax.jit
def step(state, x):
    params = state.params + x.sum()
    return State(jnp.asarray(state.count + 1, "int32"), params)


@functools.partial(jax.jit, static_argnames="scale")
def read(tree, scale):
    return scale * sum(jax.tree.leaves(tree))
"""
PROGRAM = """
import numpy as np
from proj import model

def run():
    state = model.State(0, np.ones(3, "float32"))
    for size in (4, 4, 8):
        state = model.step(state, np.ones(size, "float32"))
    one = np.float32(1)
    read = [model.read(tree, k) for tree in (one, [one, one]) for k in (1, 2)]
    return [*map(np.asarray, state), *read]
"""
RECORD = """
import json, os, sys
from aotbuild.record import Recorder
from proj import program
with Recorder(sys.argv[1]):
    print(json.dumps([np.tolist() for np in program.run()]))
"""
AGAIN = """
import json
import aotbuild
from proj import model, program
for name in ("step", "read"):
    setattr(model, name, aotbuild.precompiled(f"proj:{name}")(getattr(model, name)))
with aotbuild.guard("raise"):
    found = [np.tolist() for np in program.run()]
print(json.dumps([found, aotbuild.guard.counts()]))
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("recorded") / "project"
    write_project(root, "", model=MODEL, program=PROGRAM)
    (root / "aot.yaml").unlink()
    return root


@pytest.fixture(scope="module")
def numbers(project: Path) -> Any:
    """What the program computes while it is recorded."""
    log = project / "calls.jsonl"
    found = fresh(RECORD, str(log), path=project)
    for path, text in propose(read_call_log(log), project / "aot.yaml").files.items():
        path.write_text(text)
    return found


def test_one_function_has_calls_with_other_trees_and_weak_types(
    project: Path, numbers: object
) -> None:
    functions = load_manifest(project / "aot.yaml").functions
    assert {each.call for each in functions.values()} == {"proj.model:step", "proj.model:read"}


def test_the_program_runs_again_and_compiles_nothing(project: Path, numbers: Any) -> None:
    build(project)
    found, counts = fresh(AGAIN, path=project)
    assert found == numbers
    assert not any(counts.values())
