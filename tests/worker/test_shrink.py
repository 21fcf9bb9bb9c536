"""The thunk rewrite through a build: the switch, and the check of what it made.

A rewrite is made wrong by the project's own module, which runs in the worker process.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.projects import build, write_project

import aotbuild
from aotbuild.build.pack import Package
from aotbuild.build.run_units import is_shrink_on
from aotbuild.errors import BuildError, PlanError
from aotbuild.format.record import Record

pytestmark = pytest.mark.process

CODE = """
import jax, jax.numpy as jnp, numpy as np

def wave(x): return jnp.sin(x) * x + 1
def update(state, x): return {"sum": state["sum"] + x, "count": state["count"] + 1}
def state(): return {"sum": jnp.zeros((4, 4)), "count": jnp.int32(0)}
table = np.arange(16, dtype=np.float32).reshape(4, 4)
def tables(x, unused): return jnp.tanh(x @ table) * 2
def draw(key, x): return jax.random.split(key), jax.random.permutation(key, x)
def eigen(x): return jnp.linalg.eigh(x @ x.T)
def loop(x): return jax.lax.scan(lambda c, _: (jnp.sin(c) * 2, c.sum()), x, None, length=3)
def half(x): return (x * 2 + 1).astype(jnp.bfloat16), x[:0]
"""
X = "args: [x: 'f32[4,4]']"
# What golden inputs, executables and outputs may be.
KINDS = f"""
  wave: {{call: "proj.m:wave", {X}}}
  update:
    call: proj.m:update
    args: [state: {{like: "proj.m:state"}}, x: "f32[4,4]"]
    donate: [state]
  tables: {{call: "proj.m:tables", args: [x: "f32[4,4]", unused: "f32[2]"], constants: hoist}}
  draw: {{call: "proj.m:draw", args: [key: "key<fry>[]", x: "f32[9]"]}}
  eigen: {{call: "proj.m:eigen", {X}}}
  loop: {{call: "proj.m:loop", {X}}}
  half: {{call: "proj.m:half", args: [x: "bf16[4,4]"]}}
"""
# Makes the program of another function of what XLA compiled, which XLA loads all the same.
OTHER_RESULTS = """
from aotbuild.worker import private
from aotbuild.worker.thunk_rewrite import rewrite as rules
other = jax.jit(lambda x: jnp.sin(x) * x + 2).lower(jax.ShapeDtypeStruct((4, 4), "float32"))
rules.shrink_program = lambda *_: private.serialize_executable(other.compile())
"""
# Ends the process when the second executable of a comparison runs.
CRASHES_WHEN_RUN = """
import ctypes
from aotbuild.worker import private
run, calls = private.run_executable, []
def run_executable(*args):
    calls.append(None)
    return ctypes.string_at(0) if len(calls) == 2 else run(*args)
private.run_executable = run_executable
"""
CRASHES_WHEN_LOADED = """
import ctypes
from aotbuild.worker import private
private.load_executable = lambda *_: ctypes.string_at(0)
"""
COMPARING = "comparing the rewritten executable with the plain one"
REPORT = "the executable is kept as XLA made it. Please report this"


def project(root: Path, functions: str, code: str = "") -> Path:
    manifest = f"version: 1\npackage: proj\ntargets: [cpu, portable]\nfunctions:\n{functions}\n"
    return write_project(root, manifest, m=CODE + code)


def wave(root: Path, options: str = "", code: str = "") -> Package:
    return build(project(root, f"  wave: {{call: 'proj.m:wave', {X}{options}}}", code))


def native(package: Package) -> Record:
    return next(record for record in package.records if not record.target.is_portable)


def executable(package: Package) -> bytes:
    return (package.folder / native(package).blob.path).read_bytes()


def outcome(package: Package) -> object:
    return native(package).provenance.get("shrink")


def is_rewritten(package: Package) -> bool:
    return b"aotbuild$compiled" in executable(package)


def test_all_kinds_of_executables_are_compared(tmp_path: Path) -> None:
    package = build(project(tmp_path, KINDS))
    assert package.notes == ()
    found = {
        (r.function, r.target.is_portable): r.provenance.get("shrink") for r in package.records
    }
    assert found == {key: None if key[1] else {"check": "compared"} for key in found}


def test_what_is_not_called_is_only_loaded(tmp_path: Path) -> None:
    package = wave(tmp_path, ", verify: {golden: never}")
    assert outcome(package) == {"check": "loaded"}
    assert is_rewritten(package)


@pytest.mark.any_jax
def test_the_switch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AOTBUILD_STORE", str(tmp_path / "store"))
    usual = wave(tmp_path / "usual")
    monkeypatch.setenv("AOTBUILD_SHRINK", "off")
    plain = wave(tmp_path / "plain")
    assert is_rewritten(usual)
    assert not is_rewritten(plain)
    assert outcome(plain) is None
    monkeypatch.delenv("AOTBUILD_SHRINK")
    again = wave(tmp_path / "again")
    assert native(again) == native(usual)


def test_other_values_of_the_variable_are_refused() -> None:
    assert is_shrink_on({})
    assert is_shrink_on({"AOTBUILD_SHRINK": "on"})
    with pytest.raises(PlanError, match="AOTBUILD_SHRINK: expected on or off, found 'no'"):
        is_shrink_on({"AOTBUILD_SHRINK": "no"})


@pytest.mark.parametrize(
    ("code", "problem"),
    [
        (OTHER_RESULTS, "the rewritten executable gives another result 0"),
        (CRASHES_WHEN_RUN, f"{COMPARING}: the compiler process died of SIGSEGV"),
    ],
    ids=["results", "crash"],
)
def test_a_wrong_rewrite_is_never_packed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, problem: str
) -> None:
    monkeypatch.setenv("AOTBUILD_STORE", str(tmp_path / "store"))
    package = wave(tmp_path / "one", code=code)
    note = f"shrink: {problem}; {REPORT}"
    assert package.notes == (f"wave(): {note}",)
    assert outcome(package) == {"note": note}
    assert not is_rewritten(package)
    assert native(package).golden is not None
    ones = np.ones((4, 4), np.float32)
    result = aotbuild.load(package.folder).wave(ones)
    np.testing.assert_allclose(result, np.sin(ones) + 1, rtol=1e-5)
    monkeypatch.setenv("AOTBUILD_SHRINK", "off")
    assert executable(package) == executable(wave(tmp_path / "plain", code=code))


@pytest.mark.any_jax
def test_one_that_crashes_when_loaded_fails_the_build(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match="AOTBUILD_SHRINK=off compiles without rewriting"):
        wave(tmp_path, code=CRASHES_WHEN_LOADED)


@pytest.mark.any_jax
def test_a_compiler_that_always_crashes_fails_its_unit_as_before(tmp_path: Path) -> None:
    code = "import ctypes\njax.stages.Lowered.compile = lambda *_, **__: ctypes.string_at(0)\n"
    with pytest.raises(BuildError) as caught:
        wave(tmp_path, code=code)
    assert [failure.stage for failure in caught.value.failures] == ["compile"]
    assert "the compiler process died of SIGSEGV" in str(caught.value)
