"""Produces the errors that users meet most on the way to a wheel. See test_error_texts.py."""

from __future__ import annotations

import re
from importlib import metadata
from pathlib import Path

import pytest

from aotbuild.build.plan import make_plan
from aotbuild.errors import BuildError
from aotbuild.manifest import parse_manifest
from aotbuild.toolchains.toolchain import Environment, Toolchain, probe
from aotbuild.toolchains.uv import running_python
from support.error_cases import Place, collector, command, raised
from support.fake_index import make_index
from support.projects import build as build_project
from support.projects import write_project

CASES, case = collector()

MANIFEST = """\
version: 1
package: proj
functions:
  score:
    call: proj.model:score
    args: [{x: "f32[batch, 16]"}]
    dims: {batch: [1, 8]}
"""

# --- the manifest and the plan --------------------------------------------------------------------


def planned(place: Place, code: int, manifest: str) -> str:
    """Return what `aotbuild plan` prints about a manifest, in the folder of a project."""
    folder = write_project(place.root / "here", manifest)
    return command(place, folder, code, "plan").stderr


@case
def manifest_unknown_key(place: Place) -> str:
    return planned(place, 3, MANIFEST.replace("dims:", "dim:").replace("f32[batch", "f32[1"))


@case
def manifest_unknown_dim(place: Place) -> str:
    return planned(place, 3, MANIFEST.replace("f32[batch", "f32[batc"))


@case
def manifest_key_twice(place: Place) -> str:
    return planned(place, 3, MANIFEST + '    args: [{x: "f32[8, 16]"}]\n')


@case
def manifest_not_there(place: Place) -> str:
    return command(place, place.root, 3, "plan").stderr


@case
def manifest_todo(place: Place) -> str:
    return planned(place, 3, MANIFEST.replace("f32[batch", "TODO[batch"))


@case
def project_no_function(place: Place) -> str:
    model = "def score(x):\n    return x\n"
    folder = write_project(place.root / "here", MANIFEST, model=model)
    return command(place, folder, 4, "init", "proj.model").stderr


@case
def plan_function_not_there(place: Place) -> str:
    model = "def score(x):\n    return x\n"
    wrong = MANIFEST.replace("model:score", "model:scoer")
    folder = write_project(place.root / "here", wrong, model=model)
    return command(place, folder, 4, "build").stderr


@case
def plan_unknown_jax(place: Place) -> str:
    make_index(place.root, place.patch, [metadata.version("jax")])
    text = planned(place, 4, MANIFEST + "toolchains: [{jax: 0.9.9}]\n")
    # Every version of uv has words of its own.
    text = re.sub(r"(?s)(\n  )error: .*(\n  versions of jax)", r"\1<what uv says>\2", text)
    return text.replace(f"Python {running_python()}", "Python 3.11")


@case
def plan_old_lock(place: Place) -> str:
    jax = metadata.version("jax")
    make_index(place.root, place.patch, [jax])
    pinned = f"{MANIFEST}toolchains: [{{jax: {jax}, packages: [einops]}}]\n"
    command(place, write_project(place.root / "here", pinned), 0, "lock")
    (place.root / "here" / "aot.yaml").write_text(pinned.replace("einops", "einops>=14"))
    text = command(place, place.root / "here", 4, "plan").stderr
    return text.replace(jax.replace(".", "_"), "0_10_2")


@case
def plan_no_package(place: Place) -> str:
    return planned(place, 4, MANIFEST.replace("package: proj", "package: porj"))


@case
def plan_level_above(place: Place) -> str:
    here = probe()
    toolchains = (Toolchain("0.10.2", "0.10.2", "3.11.9"),)
    older = Environment(toolchains, "x86_64", "x86-64-v3", here.wheel_platform, here.aotbuild)
    manifest = parse_manifest(MANIFEST + "targets: [cpu: {isa: [x86-64-v3, x86-64-v4]}]\n")
    return raised(lambda: make_plan(manifest, older))


# --- the build ------------------------------------------------------------------------------------

MODEL = """\
import jax
import jax.numpy as jnp


def branch(x):
    if x.sum() > 0:
        return x
    return -x


def prints(x):
    jax.debug.callback(lambda x: print(x.sum()), x)
    return x


def raises(x):
    raise ValueError("no activation 'relo'")


def pair(a, b):
    return a + b


def leaks(x):
    with jax.named_scope(__file__):
        return jnp.sin(x)


@jax.tree_util.register_pytree_node_class
class State:
    def __init__(self, x, owner):
        self.x, self.owner = x, owner

    def tree_flatten(self):
        return (self.x,), self.owner

    @classmethod
    def tree_unflatten(cls, owner, children):
        return cls(*children, owner)


def returns_state(x):
    return {"state": State(x, lambda: None)}


CALLS, KEPT = [], {}


def counts(x):
    CALLS.append(1)
    return x * len(CALLS)


def keeps(x):
    KEPT["last"] = x * 2
    return x


def total(x):
    return x.sum()


def shares(x):
    return x // x.shape[0]


def repeats(x):
    return jnp.broadcast_to(x, (1 << 20, 1 << 20, 1 << 14, 4)) + 1
"""
INPUTS = """import numpy as np


def misshapen():
    return {"x": np.zeros((2, 2), np.float32)}
"""
_PADDED = "args: [{x: 'i32[batch,4]'}], dims: {batch: 8}, pad: {batch: 0}"
# Name in the manifest: its `call`, and its options.
BROKEN = {
    "build_function_not_found": ("proj.model:brnch", ""),
    "build_module_not_found": ("proj.modle:branch", ""),
    "build_needs_a_package": ("proj.needs:f", ""),
    "build_import_failed": ("proj.reads:f", ""),
    "build_config_at_import": (
        "proj.settings:f",
        "args: [{x: 'f32[4]'}], config: {jax_enable_x64: false}",
    ),
    "build_argument_missing": ("proj.model:pair", "args: [{a: 'f32[4]'}]"),
    "build_needs_x64": ("proj.model:branch", "args: [{x: 'f64[4]'}]"),
    "build_branch": ("proj.model:branch", ""),
    "build_host_callback": ("proj.model:prints", ""),
    "build_impure": ("proj.model:counts", ""),
    "build_keeps_a_tracer": ("proj.model:keeps", "args: [{x: 'f32[4]'}], purity: strict"),
    "build_raised": ("proj.model:raises", ""),
    "build_opaque_result": ("proj.model:returns_state", ""),
    # Of executables for one CPU, names go with the program; of those for several they stay.
    "build_path_leaks": ("proj.model:leaks", "args: [{x: 'f32[4]'}], mesh: {d: 2}"),
    "build_padding_shows": ("proj.model:shares", _PADDED),
    "build_padding_stays": ("proj.model:total", _PADDED),
    "build_golden_inputs": (
        "proj.model:total",
        "args: [{x: 'f32[4]'}], verify: {inputs: 'proj.inputs:misshapen'}",
    ),
    "build_golden_raised": (
        "proj.model:repeats",
        "args: [{x: 'f32[4]'}], verify: {golden: always}",
    ),
}


def build_failures(root: Path) -> dict[str, str]:
    """Build everything that is broken in one project; return the error of each as if alone."""
    entries = "".join(
        f"  {name}: {{call: '{call}', {options or 'args: [{x: ' + repr('f32[4]') + '}]'}}}\n"
        for name, (call, options) in BROKEN.items()
    )
    write_project(
        root,
        f"version: 1\npackage: proj\nfunctions:\n{entries}",
        model=MODEL,
        needs="import surely_not_installed\n\n\ndef f(x):\n    return x\n",
        reads="import json\n\nSIZES = json.loads('{')\n\n\ndef f(x):\n    return x\n",
        inputs=INPUTS,
        settings="import jax\n\njax.config.update('jax_enable_x64', True)\n\n\n"
        "def f(x):\n    return x\n",
    )
    with pytest.raises(BuildError) as caught:
        build_project(root)
    failures = {failure.unit.partition("(")[0]: failure for failure in caught.value.failures}
    return {name: str(BuildError([failure], 1)) for name, failure in failures.items()}
