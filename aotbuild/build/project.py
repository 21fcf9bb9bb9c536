"""A project that is built: its plan and its sources. The command line and the hook open it here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from aotbuild.build.plan import Plan, make_plan
from aotbuild.build.sources import SourceTree, find_sources
from aotbuild.manifest import load_manifest
from aotbuild.toolchains.environments import find_environment
from aotbuild.toolchains.project import project_requirements
from aotbuild.toolchains.wanted import jax_notes, pinned_jax

Say = Callable[[str], None]


@dataclass(frozen=True)
class Project:
    """A plan and the sources that it is built from, and notes on what its wheel requires.

    `is_pinned`: the manifest or the project's dependencies say which jax compiles.
    """

    plan: Plan
    sources: SourceTree
    is_pinned: bool
    notes: tuple[str, ...] = ()


def open_project(
    manifest: Path,
    root: Path | None,
    say: Say,
    *,
    packages: tuple[str, ...] = (),
    run_code: bool = True,
) -> Project:
    """Read a manifest and make the plan; imports and compiles nothing of the user's.

    `root` is the project's folder, by default the manifest's. `packages` are the folders below it
    that may hold the package. `run_code` is that of `project_requirements`.
    """
    loaded = load_manifest(manifest)
    sources = find_sources((root or manifest.parent).resolve(), loaded.package, packages)
    needed = project_requirements(sources.root, run_code=run_code)
    plan = make_plan(loaded, find_environment(loaded, needed, say))
    shipped: tuple[str, ...] = ()
    if loaded.runtime == "jaxlib":
        shipped = project_requirements(sources.root, run_code=run_code, shipped=True)
    is_pinned = bool(loaded.toolchains or pinned_jax(needed))
    return Project(plan, sources, is_pinned, jax_notes(shipped))
