"""What `aotbuild init` writes: the manifest of a project's functions, and its pyproject.toml."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from aotbuild.errors import ProjectError
from aotbuild.format.words import did_you_mean
from aotbuild.manifest.nodes import Problems, child, plain
from aotbuild.manifest.reader import read_yaml
from aotbuild.record.changes import FileChange, read_text
from aotbuild.record.project import Prepared, manifest_named, prepare
from aotbuild.record.project_tables import PYPROJECT, Wanted
from aotbuild.record.schema_file import schema_changes
from aotbuild.record.source import read_module
from aotbuild.record.source_files import ModuleFile, find_module, modules_below
from aotbuild.record.source_find import find_functions
from aotbuild.record.source_functions import Found, LeftOut, SourceFunction
from aotbuild.record.source_manifest import DraftEntry, draft_entries, manifest_text

# Files that tell other build backends something.
_OTHERS = ("setup.py", "setup.cfg", "MANIFEST.in")
_SHOWN = 8


@dataclass(frozen=True)
class Preparation:
    """What was found, and the files as they will be.

    Attributes:
        root: The project's folder.
        manifest: The path of the manifest, relative to it: that of the hook, else `aot.yaml`.
        package: The import package that receives `_aot/`.
        entries: The functions that the manifest gets.
        known: The names of functions that the manifest had already.
        left_out: Jits that no manifest can name.
        pyproject: The prepared pyproject.toml.
        changes: The files to write.
    """

    root: Path
    manifest: str
    package: str
    entries: tuple[DraftEntry, ...]
    known: tuple[str, ...]
    left_out: tuple[LeftOut, ...]
    pyproject: Prepared
    changes: tuple[FileChange, ...]


def prepare_project(
    root: Path, wanted: Sequence[str], *, recursive: bool = False, switch: bool = False
) -> Preparation:
    """Read the modules of a project, each `module` or `module:function`, and draft both files.

    Nothing is imported or written. With `recursive`, packages are read with all that is in them.
    `switch` lets the project have another build backend. A new manifest gets its schema beside it.
    ProjectError says what is wrong.
    """
    modules = _modules(root, wanted, recursive=recursive)
    first = modules[0][0]
    others = [module.name for module, _ in modules if module.package != first.package]
    if others:
        problem = f"{first.name} and {others[0]} are in two packages, and a manifest is for one"
        raise ProjectError(str(root.resolve()), problem, "Name modules of one package.")
    found = _merged(_found(root, module, names) for module, names in modules)
    manifest = manifest_named(read_text(root / PYPROJECT))
    path = root / manifest
    before = read_text(path)
    calls = _calls(before, manifest) if before is not None else {}
    new = [each for each in found.functions if each.call not in calls.values()]
    if not found.functions:
        raise _nothing(modules, found)
    entries = draft_entries(new, calls)
    pyproject, change = _pyproject(root, first, manifest, switch=switch)
    # An existing manifest is a person's: what is new is printed.
    text = manifest_text(first.package, entries) if before is None else before
    schema = schema_changes(path.parent) if before is None else ()
    changes = (FileChange(path, before, text), *schema, change)
    known = tuple(name for name, call in calls.items() if call in {f.call for f in found.functions})
    return Preparation(
        root, manifest, first.package, tuple(entries), known, found.left_out, pyproject, changes
    )


# --- sources --------------------------------------------------------------------------------------


def _modules(
    root: Path, wanted: Sequence[str], *, recursive: bool
) -> list[tuple[ModuleFile, list[str]]]:
    """Return each module once, with the functions that are named in it."""
    found: dict[str, tuple[ModuleFile, list[str]]] = {}
    for text in wanted:
        name, colon, function = text.partition(":")
        below = recursive and not colon
        for module in modules_below(root, name) if below else [find_module(root, name)]:
            found.setdefault(module.name, (module, []))[1].extend([function] if colon else [])
    return [*found.values()]


def _found(root: Path, file: ModuleFile, names: Sequence[str]) -> Found:
    base = root.resolve()
    shown = file.path.relative_to(base) if file.path.is_relative_to(base) else file.path
    try:
        module = read_module(file.name, file.path, shown.as_posix())
    except SyntaxError as err:
        place, problem = f"{shown}:{err.lineno or 1}", f"not Python of this version: {err.msg}"
        remedy = "Mend it, or run aotbuild with the Python that runs it."
        raise ProjectError(place, problem, remedy) from err
    except (ValueError, RecursionError, MemoryError) as err:  # ast's words for too much nesting
        raise ProjectError(str(shown), f"not Python: {err}", "Mend it first.") from err
    try:
        return find_functions(module, names)
    except LookupError as err:
        name = str(err.args[0])
        hint = did_you_mean(name, module.functions)
        known = ", ".join([*module.functions][:_SHOWN]) or "none"
        problem = f"it defines no function {name!r}{hint}"
        raise ProjectError(str(shown), problem, f"Functions at its top: {known}.") from err


def _merged(found: Iterable[Found]) -> Found:
    each = [*found]
    functions = (function for one in each for function in one.functions)
    once: dict[str, SourceFunction] = {function.call: function for function in functions}
    left_out = tuple(item for one in each for item in one.left_out)
    return Found(tuple(once.values()), left_out, tuple(name for one in each for name in one.plain))


def _nothing(modules: Sequence[tuple[ModuleFile, list[str]]], found: Found) -> ProjectError:
    """Return what to do where no jit was found that a manifest can name."""
    module = modules[0][0]
    names = [each.name for each, _ in modules]
    place = names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more modules"
    more = len(found.left_out) - _SHOWN
    listed = "".join(f"\n{item}" for item in found.left_out[:_SHOWN])
    listed += f"\nand {more} more" if more > 0 else ""
    problem = f"no function under jax.jit, nnx.jit or eqx.filter_jit that has a name{listed}"
    if found.plain:
        first, *others = found.plain[:_SHOWN]
        remedy = f"Name functions yourself: aotbuild init {first}"
        remedy += f"\nOthers: {', '.join(others)}." if others else ""
        return ProjectError(place, problem, remedy)
    is_package = module.path.name == "__init__.py"
    remedy = "Name the module that has the functions" + (
        ", or read all modules of the package with --recursive." if is_package else "."
    )
    return ProjectError(place, problem, remedy)


def _calls(text: str, file: str) -> dict[str, str]:
    """Return the functions of a manifest, name to call; what is wrong in it is for `plan`."""
    root = read_yaml(text, Problems(file))
    node = child(root, "functions") if root else None
    functions = plain(node) if node else {}
    if not isinstance(functions, dict):
        return {}
    return {
        str(name): str(entry.get("call", "")) if isinstance(entry, dict) else ""
        for name, entry in functions.items()
    }


# --- pyproject.toml -------------------------------------------------------------------------------


def _pyproject(
    root: Path, module: ModuleFile, manifest: str, *, switch: bool
) -> tuple[Prepared, FileChange]:
    path = root / PYPROJECT
    before = read_text(path)
    top = module.package.partition(".")[0]
    folder = Path(os.path.relpath(module.import_root / top, root.resolve())).as_posix()
    others = [name for name in _OTHERS if (root / name).is_file()]
    if module.import_root != root.resolve():
        beside = sorted(path.parent.name for path in module.import_root.glob("*/__init__.py"))
        others += [f"the package {name}" for name in beside if name != top]
    name = re.sub(r"_+", "-", top)
    wanted = Wanted(module.package, folder, manifest, tuple(others), name)
    prepared = prepare(before, wanted, switch=switch)
    if prepared.problem:  # none is made where there is none
        before = prepared.text
    return prepared, FileChange(path, before, prepared.text)
