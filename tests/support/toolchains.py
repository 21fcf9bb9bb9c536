"""Toolchains for tests of other platforms: a real environment, made by aotbuild's own machinery.

    from support.toolchains import cross_environment

    @pytest.fixture(scope="session")
    def environment() -> Environment:
        return cross_environment("cuda")            # or ("tpu"), or both in one

    make_plan(load_manifest(...), environment)       # its one toolchain has the plugins
    environment.toolchains[0].interpreter            # the Python that has them installed

The toolchain has the running jax's version and the running Python. It is made once a test run, for
all xdist workers (conftest.py points AOTBUILD_TOOLCHAINS at a folder that they share), and its
packages come from the package index or uv's cache. Mark tests that are slow because of it `wheel`.
"""

from __future__ import annotations

from functools import cache
from importlib import metadata
from pathlib import Path

from aotbuild.build.pack import Package, build_package
from aotbuild.build.plan import make_plan
from aotbuild.build.project import find_sources
from aotbuild.manifest import load_manifest, parse_manifest
from aotbuild.toolchains.environments import find_environment, make_environments
from aotbuild.toolchains.toolchain import Environment
from support.projects import write_project

_TARGETS = {"cuda": "cuda: {gpu: h100-sxm}", "tpu": 'tpu: {topology: "v5e:2x2"}'}


@cache
def cross_environment(*platforms: str) -> Environment:
    """Return an environment whose one toolchain compiles for these platforms, ready to be used."""
    targets = ", ".join(_TARGETS[platform] for platform in platforms)
    text = (
        "version: 1\npackage: p\nfunctions: {f: {call: 'm:f'}}\n"
        f"targets: [{targets}]\n"
        f"toolchains: [{{jax: '{metadata.version('jax')}'}}]\n"
    )
    environment = find_environment(parse_manifest(text))
    make_environments(environment.toolchains)
    return environment


def build_with(
    environment: Environment, folder: Path, targets: str, *functions: str, **sources: str
) -> Package:
    """Build functions of a project `proj` for targets, all written as in a manifest."""
    listing = "".join(f"  {function}\n" for function in functions)
    text = f"version: 1\npackage: proj\ntargets: {targets}\nfunctions:\n{listing}"
    root = write_project(folder, text, **sources)
    plan = make_plan(load_manifest(root / "aot.yaml"), environment)
    return build_package(plan, find_sources(root, "proj"), folder / "out" / "_aot")
