"""Produces the errors that users meet most on the way to a wheel. See test_error_texts.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from aotbuild.build.plan import make_plan
from aotbuild.errors import BuildError
from aotbuild.manifest import parse_manifest
from aotbuild.toolchains.toolchain import Environment, Toolchain, probe
from support.error_cases import Place, collector, command, raised
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
def manifest_unknown_dim(place: Place) -> str:
    return planned(place, 3, MANIFEST.replace("f32[batch", "f32[batc"))


@case
def project_no_function(place: Place) -> str:
    model = "def score(x):\n    return x\n"
    folder = write_project(place.root / "here", MANIFEST, model=model)
    return command(place, folder, 3, "init", "proj.model").stderr


@case
def plan_level_above(place: Place) -> str:
    here = probe()
    toolchains = (Toolchain("0.10.2", "0.10.2", "3.11.9"),)
    older = Environment(toolchains, "x86_64", "x86-64-v3", here.wheel_platform, here.aotbuild)
    manifest = parse_manifest(MANIFEST + "targets: [cpu: {isa: [x86-64-v3, x86-64-v4]}]\n")
    return raised(lambda: make_plan(manifest, older))


# --- the build ------------------------------------------------------------------------------------

MODEL = """\
def branch(x):
    if x.sum() > 0:
        return x
    return -x


CALLS = []


def counts(x):
    CALLS.append(1)
    return x * len(CALLS)


def shares(x):
    return x // x.shape[0]
"""
_PADDED = "args: [{x: 'i32[batch,4]'}], dims: {batch: 8}, pad: {batch: 0}"
# Name in the manifest: its `call`, and its options.
BROKEN = {
    "build_branch": ("proj.model:branch", ""),
    "build_impure": ("proj.model:counts", ""),
    "build_padding_shows": ("proj.model:shares", _PADDED),
}


def build_failures(root: Path) -> dict[str, str]:
    """Build everything that is broken in one project; return the error of each as if alone."""
    entries = "".join(
        f"  {name}: {{call: '{call}', {options or 'args: [{x: ' + repr('f32[4]') + '}]'}}}\n"
        for name, (call, options) in BROKEN.items()
    )
    write_project(root, f"version: 1\npackage: proj\nfunctions:\n{entries}", model=MODEL)
    with pytest.raises(BuildError) as caught:
        build_project(root)
    failures = {failure.unit.partition("(")[0]: failure for failure in caught.value.failures}
    return {name: str(BuildError([failure], 1)) for name, failure in failures.items()}
