"""A manifest to mutate, a machine to plan it for, and all that is done with what comes of it."""

from __future__ import annotations

import json

from aotbuild.build.jobs import Job, make_jobs
from aotbuild.build.plan import make_plan
from aotbuild.errors import ManifestError, PlanError
from aotbuild.manifest import Manifest
from aotbuild.toolchains.toolchain import Environment, Toolchain

# A machine of its own, so that a plan is the same everywhere.
ENVIRONMENT = Environment(
    (Toolchain("0.10.2", "0.10.2", "3.11.9"),),
    "x86_64",
    "x86-64-v3",
    "manylinux_2_27_x86_64",
    "0.1.0",
)
SMALL = """\
version: 1
package: p
targets: [cpu, {portable: {platforms: [cpu]}}]
functions:
  f:
    call: p.m:f
    args: [{x: "f32[b, 4]"}, {params: {like: "p.m:init"}}, {t: [null, {k: "i32[s]"}]}]
    kwargs: {scale: "~f32[]"}
    dims: {b: [1, 8], s: [2]}
    static: {causal: [true, false], 3: [1, 1.5, [a, null]]}
    donate: [params]
    mesh: {data: 2}
    in_shardings: {x: [data, null], params: {w: [null, data]}}
    out_shardings: [data]
    config: {jax_enable_x64: false}
    env: {EQX_ON_ERROR: nan}
    export: {dims: {b: "2*n"}, constraints: ["n <= 64"]}
"""


def check_problems(error: ManifestError) -> None:
    """Check that each problem has a place, and can be shown."""
    assert error.problems
    for problem in error.problems:
        assert problem.line >= 1
        assert problem.column >= 1
        assert problem.message
        str(problem).encode()


def check_plan(manifest: Manifest) -> None:
    """Plan it and write what the workers would be told, and read that again."""
    try:
        plan = make_plan(manifest, ENVIRONMENT)
    except PlanError as err:
        str(err).encode()
        return
    assert plan.units
    for _, job, units in make_jobs(plan.units[:4]):
        sent = job.model_dump_json()
        assert Job.model_validate_json(sent) == job
        assert Job.model_validate(json.loads(sent)).model_dump_json() == sent
        "".join(map(str, units)).encode()
