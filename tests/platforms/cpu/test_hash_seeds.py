"""Hash tables of XLA have one order, so what a process compiled before changes no byte."""

from __future__ import annotations

import platform
import sys
from pathlib import Path

import pytest
from jaxlib.version import __version__
from support.processes import fresh
from support.projects import build, write_project

from aotbuild.build.pool import JOBS_VARIABLE
from aotbuild.errors import PlanError
from aotbuild.platforms.building import Hardware
from aotbuild.platforms.cpu import compile as cpu_compile
from aotbuild.platforms.cpu.compile import CpuCompiler
from aotbuild.platforms.cpu.hash_seeds import fix_seeds
from aotbuild.store.places import VARIABLE

can_fix = sys.platform == "linux" and platform.machine() == "x86_64"

# XLA compiles each of these loops into one kernel over several buffers.
FUNCTIONS = """
import jax
import jax.numpy as jnp

def drawn(key):
    return jax.random.permutation(key, 64)

def walked(x):
    return jax.lax.scan(lambda c, y: (c * y + jnp.sin(c), c.sum()), x, jnp.arange(7.0))

def solved(a, b):
    return jnp.linalg.solve(a, b)

def centered(x):
    return x - x.mean(axis=0)

def scaled(x):
    return x / jnp.exp(x).sum(axis=0)
"""
ENTRIES = {
    "drawn": "args: [{key: 'u32[2]'}]",
    "walked": "args: [{x: 'f32[5]'}]",
    "solved": "args: [{a: 'f32[6,6]'}, {b: 'f32[6]'}]",
}
MESH = "args: [{x: 'f32[8,64]'}], mesh: {data: 4}, in_shardings: {x: [data]}, out_shardings: [data]"


def manifest(*names: str) -> str:
    entries = "".join(
        f"  {name}: {{call: 'proj.m:{name}', {ENTRIES.get(name, MESH)}}}\n" for name in names
    )
    return f"version: 1\npackage: proj\ntargets: [cpu]\nfunctions:\n{entries}"


def executables(root: Path, *names: str) -> dict[str, str]:
    """Build functions in that order; return the digest of each one's executable."""
    package = build(write_project(root, manifest(*names), m=FUNCTIONS))
    assert {record.provenance["hashes"] for record in package.records} == {"fixed"}
    return {record.function: record.blob.sha256 for record in package.records}


@pytest.mark.process
@pytest.mark.skipif(not can_fix, reason="the seeds are those of the process here")
def test_the_order_of_jobs_changes_no_executable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, "off")
    expected = executables(tmp_path / "forward", *ENTRIES)
    assert executables(tmp_path / "backward", *reversed(ENTRIES)) == expected
    monkeypatch.setenv(JOBS_VARIABLE, "2")
    assert executables(tmp_path / "2 jobs", *ENTRIES) == expected


@pytest.mark.process
def test_collectives_have_one_order_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second of a process has another number of its module in each thunk."""
    monkeypatch.setenv(VARIABLE, "off")
    expected = executables(tmp_path / "forward", "centered", "scaled")
    assert executables(tmp_path / "backward", "scaled", "centered") == expected


COMPILES = """
import sys
import jax
import jax.numpy as jnp
from aotbuild.platforms.cpu.hash_seeds import fix_seeds
from aotbuild.worker.private import serialize_executable
from aotbuild.worker.thunk_rewrite.canonical import canonical
from jaxlib.version import __version__

def walked(x):
    return jax.lax.scan(lambda c, y: (c * y + jnp.sin(c), c.sum()), x, jnp.arange(7.0))

if sys.argv[1] == "fix":
    assert fix_seeds("libjax_common.so", __version__)
    assert not fix_seeds("libjax_common.so", __version__), "nothing is left to change"
jax.config.update("jax_traceback_in_locations_limit", 0)
made = set()
for _ in range(3):
    jax.clear_caches()
    lowered = jax.jit(walked).lower(jax.ShapeDtypeStruct((5,), "float32"))
    made.add(canonical(serialize_executable(lowered.compile()), __version__))
print(len(made))
"""


@pytest.mark.process
@pytest.mark.skipif(not can_fix, reason="the seeds are those of the process here")
def test_one_process_compiles_one_program_to_the_same_bytes() -> None:
    assert fresh(COMPILES, "fix") == 1
    # Else the test above proves nothing.
    assert fresh(COMPILES, "leave") == 3


@pytest.mark.parametrize(
    ("library", "jaxlib"),
    [
        ("libjax_uncommon.so", __version__),  # not there
        ("libc.so.6", __version__),  # without the instruction
        ("libjax_common.so", "0.10.3.dev1"),  # a version that nobody looked at
    ],
)
def test_nothing_unknown_is_changed(library: str, jaxlib: str) -> None:
    assert not fix_seeds(library, jaxlib)


COUNTS = """
import json
import sys
import jaxlib._jax
from aotbuild.platforms.cpu import hash_seeds
from jaxlib.version import __version__

count, span = hash_seeds._KNOWN[__version__]
hash_seeds._KNOWN[__version__] = count + int(sys.argv[1]), span + int(sys.argv[2])
before = [*hash_seeds._places("libjax_common.so")]
fixed = hash_seeds.fix_seeds("libjax_common.so", __version__)
left = [*hash_seeds._places("libjax_common.so")]
pages = {place // 4096 for place in before}
spans = [line.split() for line in open("/proc/self/maps")]
writable = [
    area for area, mode, *_ in spans
    if "w" in mode and any(
        int(area.split("-")[0], 16) <= page * 4096 < int(area.split("-")[1], 16) for page in pages)
]
print(json.dumps([fixed, len(before) == count, len(left), writable]))
"""


@pytest.mark.process
@pytest.mark.skipif(not can_fix, reason="the seeds are those of the process here")
def test_code_is_changed_only_if_it_is_exactly_what_is_known() -> None:
    assert fresh(COUNTS, "0", "0") == [True, True, 0, []]
    count = fresh(COUNTS, "1", "0")[2]
    assert fresh(COUNTS, "1", "0") == fresh(COUNTS, "0", "1") == [False, True, count, []]
    assert count >= 8


@pytest.mark.process
def test_a_variable_leaves_the_code_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AOTBUILD_FIX_HASHES", "off")
    (record,) = build(write_project(tmp_path, manifest("walked"), m=FUNCTIONS)).records
    assert record.provenance["hashes"] == "of the process"
    monkeypatch.setenv("AOTBUILD_FIX_HASHES", "no")
    with pytest.raises(PlanError, match="AOTBUILD_FIX_HASHES: expected on or off, found 'no'"):
        build(tmp_path)


def test_a_record_says_where_they_are_not_fixed(monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = CpuCompiler()
    monkeypatch.setattr(cpu_compile, "fix_seeds", lambda *_: False)
    compiler.start(fix_hashes=True)
    assert compiler.provenance(Hardware())["hashes"] == "of the process"
    assert "of the process" in compiler.deciding_facts(Hardware())
