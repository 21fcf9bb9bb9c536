"""Notes about constants that executables embed: how much, the largest, and what to do."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.projects import build, write_project

from aotbuild.build.package_size import EmbeddedIn, embedded_notes, size_remedy
from aotbuild.build.protocol import Embedded

MODEL = """
import jax, jax.numpy as jnp, numpy as np
WEIGHTS = {"big": np.ones((1024, 256), "float32"), "bias": np.ones(256, "float32")}
SMALL = np.ones(100, "float32")
def large(x):
    # In a function of its own, too.
    return jax.jit(lambda x: x @ WEIGHTS["big"])(x) + WEIGHTS["bias"]
def small(x):
    return x + SMALL
def computed(x):
    return x @ jnp.asarray(np.arange(1024 * 256, dtype="float32").reshape(1024, 256))
"""
MANIFEST = """
version: 1
package: proj
targets: [cpu, portable]
defaults: {verify: {golden: never}}
functions:
  large: {call: "proj.model:large", args: [x: "f32[n,1024]"], dims: {n: [1, 2]}}
  hoisted:
    {call: "proj.model:large", args: [x: "f32[n,1024]"], dims: {n: [1, 2]}, constants: hoist}
  small: {call: "proj.model:small", args: [x: "f32[n,100]"], dims: {n: [1, 2, 3]}}
  computed: {call: "proj.model:computed", args: [x: "f32[1024]"]}
"""


def embedded(executables: int, total: int) -> EmbeddedIn:
    return EmbeddedIn("f", executables, Embedded(total=total, largest="m.W", largest_bytes=total))


@pytest.mark.process
def test_a_build_names_the_largest_and_the_remedy(tmp_path: Path) -> None:
    package = build(write_project(tmp_path, MANIFEST, model=MODEL))
    large, computed = [note for note in package.notes if "constants" in note]
    remedy = "1.0 MB. `constants: hoist` stores them once, beside the executables"
    assert large == (
        "large: constants are embedded in 2 executables, 1.0 MB in each; the largest is "
        f"float32[1024,256], {remedy}"
    )
    assert computed == (
        "computed: constants are embedded in its executable, 1.0 MB; the largest is "
        f"float32[1024,256], {remedy}"
    )
    assert package.size_remedy == (
        ". 3.1 MB are constants that executables embed: in large, the largest is "
        "float32[1024,256], 1.0 MB. `constants: hoist` stores each once"
    )


@pytest.mark.parametrize(("executables", "total", "noted"), [
    (1, 1_000_000, False),
    (1, 1_000_001, True),
    (10, 100_000, False),
    (11, 100_000, True),
])  # fmt: skip
def test_what_counts_is_the_size_in_all_executables(
    executables: int, total: int, noted: bool
) -> None:
    found = [embedded(executables, total)]
    assert bool([*embedded_notes(found)]) == bool(size_remedy(found)) == noted
