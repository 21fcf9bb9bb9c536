"""A project that is built: its plan, and the folder its package is imported from.

The command line and the hook open it here.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from aotbuild.build.plan import Plan, make_plan
from aotbuild.errors import PlanError
from aotbuild.format.files import file_digest
from aotbuild.format.index import FOLDER_NAME
from aotbuild.manifest import load_manifest
from aotbuild.toolchains.environments import find_environment
from aotbuild.toolchains.project import project_requirements
from aotbuild.toolchains.wanted import jax_notes, pinned_jax

Say = Callable[[str], None]

# Files that can be imported, and the folders in a package whose files are made.
_MODULES = frozenset((".py", ".pyc", ".so", ".pyd"))
_NO_MODULES = frozenset(("__pycache__", FOLDER_NAME))
_REMEDY = (
    "Correct package: in the manifest, or build where the package is (on the command line: --root)."
)


@dataclass(frozen=True)
class SourceTree:
    """A project's root, the folder its package is imported from, and the package's name.

    `digests` are those that a package states which is built in its source folder; see `stating`.
    """

    root: Path
    import_root: Path
    package: str
    digests: Mapping[str, str] = field(default_factory=dict)

    def below(self, path: Path) -> str | None:
        """Return a path relative to the project's folder, with slashes; None for one elsewhere."""
        real, root = path.resolve(), self.root.resolve()
        return real.relative_to(root).as_posix() if real.is_relative_to(root) else None

    @property
    def artifacts(self) -> str:
        """The path of `_aot` below site-packages, as `tinyformer/_aot`."""
        return "/".join((*self.package.split("."), FOLDER_NAME))

    def stating(self, references: Iterable[str]) -> SourceTree:
        """Return it with the SHA-256 of each module below the top levels of package and references.

        Paths are relative to the folder that holds `_aot`. Modules elsewhere are left out.
        """
        home = (self.import_root / self.artifacts).parent
        digests: dict[str, str] = {}
        for top in {
            each.partition(":")[0].partition(".")[0] for each in (self.package, *references)
        }:
            place = self.import_root / top
            for path in (place.with_suffix(".py"), *place.rglob("*.py")):
                if _NO_MODULES.isdisjoint(path.relative_to(place.parent).parts):
                    with suppress(OSError):  # no such file, or it may not be read
                        digests[Path(os.path.relpath(path, home)).as_posix()] = file_digest(path)
        return replace(self, digests=digests)


def find_sources(root: Path, package: str, roots: tuple[str, ...] = ()) -> SourceTree:
    """Find the folder from which `package` is imported: one of `roots`, the root, or `src`.

    One with modules comes before one without, such as what git leaves of a folder that has moved.
    PlanError names the places that were searched.
    """
    relative = Path(*package.split("."))
    places = [root / place for place in dict.fromkeys((*roots, ".", "src"))]
    found = [place for place in places if (place / relative).is_dir()]
    if found:
        chosen = (
            found[0] if roots else next((p for p in found if _has_modules(p / relative)), found[0])
        )
        return SourceTree(root, chosen.resolve(), package)
    if any((place / relative).with_suffix(".py").is_file() for place in places):
        msg = f"package {package!r} is a module; _aot/ needs a package (a folder)"
        raise PlanError(msg)
    searched = "".join(f"\n  searched {place / relative}" for place in places)
    msg = f"package {package!r} of the manifest is not in the project{searched}\n{_REMEDY}"
    raise PlanError(msg)


def _has_modules(folder: Path) -> bool:
    files = (path.relative_to(folder) for path in folder.rglob("*") if path.suffix in _MODULES)
    return any(_NO_MODULES.isdisjoint(file.parts) for file in files)


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
