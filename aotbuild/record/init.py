"""What `aotbuild init` writes: a manifest of a project's functions, and a first pyproject.toml."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from aotbuild.errors import ProjectError
from aotbuild.format.dist_info import UNREADABLE, installed_version
from aotbuild.format.index import FOLDER_NAME
from aotbuild.format.words import did_you_mean
from aotbuild.manifest.names import function_name_problem
from aotbuild.manifest.problems import Problems
from aotbuild.manifest.reader import read_yaml
from aotbuild.record.manifest_text import flow, manifest_files, manifest_text, read_text
from aotbuild.record.source import FoundFunction, Module
from aotbuild.record.specs import TODO, UNKNOWN

PYPROJECT = "pyproject.toml"
_MANIFEST = "aot.yaml"
_TABLES = """\
[build-system]
requires = ["hatchling>=1.29", "aotbuild[build]"]
build-backend = "hatch_aotbuild.backend"

[project]
name = "{name}"
version = "0.1.0"
dependencies = [
    "jax=={jax}",  # what compiles, exactly; another version needs another wheel
    "jaxlib=={jaxlib}",
    "aotbuild~={aotbuild}",
{imported}]

[dependency-groups]
dev = ["aotbuild[build]"]  # `uv run aotbuild plan`

[tool.hatch.build.targets]  # twine 6.2 refuses 2.5, which hatchling 1.33 writes
wheel.core-metadata-version = "2.4"
sdist.core-metadata-version = "2.4"

[tool.hatch.build.targets.wheel.hooks.aotbuild]
manifest = "{manifest}"

[tool.uv]  # uv builds again if one of these changes
cache-keys = [
    {{ file = "pyproject.toml" }},
    {{ file = "{manifest}" }},
    {{ file = "{folder}/**/*.py" }},
]
"""
_COMMENTS = (
    "# Replace each TODO by hand; `aotbuild plan` says where they are. Or replace these",
    "# entries by those that `aotbuild record` prints for what your program calls.",
)
_TRIED = "0.10.2"  # where neither a lock nor the environment has a jax
_ROOTS = (".", "src")
_SKIPPED = {"__pycache__", "tests", "__main__", FOLDER_NAME}
_GIVE = "Give an import name, such as mypkg.model, and the project's folder with --root."


@dataclass(frozen=True)
class Drafted:
    """The entry of a function: its name in the manifest, the function, its file and its lines."""

    name: str
    function: FoundFunction
    file: str
    lines: tuple[str, ...]

    @property
    def todos(self) -> int:
        """The number of places that a person has to fill in."""
        return sum(line.count(TODO) for line in self.lines)


@dataclass(frozen=True)
class Preparation:
    """What was found, and the files as they will be.

    Attributes:
        manifest: The path of the manifest, relative to the project.
        package: The import package that receives `_aot/`.
        entries: The functions that the manifest gets.
        known: The names of functions that the manifest has already.
        tables: What pyproject.toml needs; empty if the build hook is there already.
        files: The files to write, which are new.
    """

    manifest: str
    package: str
    entries: tuple[Drafted, ...]
    known: tuple[str, ...]
    tables: str
    files: dict[Path, str]


def prepare_project(root: Path, wanted: Sequence[str]) -> Preparation:
    """Read modules of a project, each `module`, `package` or `module:function`; draft both files.

    Nothing is imported or written, and files that exist stay as they are. ProjectError says what is
    wrong.
    """
    place, package = _package(root, wanted[0])
    found: dict[str, tuple[str, FoundFunction]] = {}
    imported: set[str] = set()
    for text in wanted:
        name, _, function = text.partition(":")
        for module, path in _modules(root, name, place, package):
            shown = path.relative_to(root).as_posix()
            source = _read(module, path, shown)
            imported |= {each.partition(".")[0] for each in source.imports.values()}
            functions = source.find()
            if function:
                functions = [_chosen(source, function, functions, shown)]
            found.update({each.call: (shown, each) for each in functions})
    if not found:
        problem = "no function under jax.jit, nnx.jit or eqx.filter_jit has a name"
        remedy = f"Name a function yourself: aotbuild init {wanted[0].partition(':')[0]}:FUNCTION"
        raise ProjectError(wanted[0], problem, remedy)
    pyproject = read_text(root / PYPROJECT)
    hook = _hook(pyproject or "")
    manifest = str(hook.get("manifest") or _MANIFEST)
    before = read_text(root / manifest)
    _, calls = functions_in(before or "")
    new = [(file, each) for call, (file, each) in found.items() if call not in calls.values()]
    entries = _drafted(new, [*calls])
    files: dict[Path, str] = {}
    if before is None:
        lines = [line for entry in entries for line in entry.lines]
        comments = _COMMENTS if any(entry.todos for entry in entries) else ()
        files = manifest_files(root / manifest, manifest_text(package, lines, comments))
    top = package.partition(".")[0]
    folder = (place.relative_to(root) / top).as_posix()
    name = re.sub("_+", "-", top)
    others = "".join(f'    "{each}",\n' for each in _distributions(imported - {top}))
    values = {"name": name, "manifest": manifest, "folder": folder, "imported": others}
    values |= _versions(root)
    tables = "" if hook else _TABLES.format(**values)
    if pyproject is None and not (root / "setup.py").is_file():
        files[root / PYPROJECT] = tables
    known = tuple(name for name, call in calls.items() if call in found)
    return Preparation(manifest, package, tuple(entries), known, tables, files)


def _versions(root: Path) -> dict[str, str]:
    """Return the versions to pin: those that the project's uv.lock has, else the installed ones."""
    try:
        packages = tomllib.loads(read_text(root / "uv.lock") or "").get("package", [])
        locked = {each["name"]: each["version"] for each in packages if "version" in each}
    except (ValueError, TypeError, KeyError):
        locked = {}
    jax = locked.get("jax") or installed_version("jax") or _TRIED
    jaxlib = locked.get("jaxlib") or installed_version("jaxlib") or jax
    return {"jax": jax, "jaxlib": jaxlib, "aotbuild": installed_version("aotbuild") or "0.1.0"}


def _distributions(modules: Collection[str]) -> list[str]:
    """Return what has modules that the project imports, as far as it is installed."""
    try:
        owners = metadata.packages_distributions()
    except UNREADABLE:
        return []
    found = [{*owners.get(module, ())} for module in modules]
    # Several distributions share a namespace package, as `google`: nobody knows which is meant.
    names = {name for each in found if len(each) == 1 for name in each}
    return sorted(names - {"jax", "jaxlib", "aotbuild"})


def _hook(text: str) -> dict[str, Any]:
    """Return the table of the build hook in a pyproject.toml; empty if it has none."""
    try:
        table: Any = tomllib.loads(text)
    except ValueError as err:
        raise ProjectError(PYPROJECT, f"not TOML: {err}", "Correct it first.") from err
    for name in ("tool", "hatch", "build", "targets", "wheel", "hooks", "aotbuild"):
        table = table.get(name) if isinstance(table, dict) else None
    return table if isinstance(table, dict) else {}


# --- modules --------------------------------------------------------------------------------------


def _package(root: Path, name: str) -> tuple[Path, str]:
    """Return the folder that a module is imported from, and the outermost package with a file."""
    module = name.partition(":")[0]
    parts = module.split(".")
    if not all(map(str.isidentifier, parts)) or "/" in module:
        raise ProjectError(str(root), f"{module!r} is not the name of a module", _GIVE)
    for place in _ROOTS:
        for length in range(1, len(parts) + 1):
            if root.joinpath(place, *parts[:length], "__init__.py").is_file():
                return root / place, ".".join(parts[:length])
    packages = [p.parent.name for place in _ROOTS for p in root.glob(f"{place}/*/__init__.py")]
    problem = f"no package has the module {module!r}{did_you_mean(parts[0], packages)}"
    remedy = f"{_GIVE} A folder with an __init__.py is a package; _aot/ goes there."
    raise ProjectError(str(root), problem, remedy)


def _modules(root: Path, name: str, place: Path, package: str) -> Iterator[tuple[str, Path]]:
    """Yield a module, or all modules of a package but tests, with their files."""
    if not f"{name}.".startswith(f"{package}."):
        problem = f"{name} is not in the package {package}, and a manifest is for one package"
        raise ProjectError(str(root), problem, "Run it again for the other package.")
    folder = place.joinpath(*name.split("."))
    file = folder.with_suffix(".py")
    if file.is_file():
        yield name, file
        return
    if not (folder / "__init__.py").is_file():
        hint = did_you_mean(folder.name, [each.stem for each in folder.parent.glob("*.py")])
        raise ProjectError(str(root), f"no module {name!r}{hint}", _GIVE)
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(place).with_suffix("").parts
        is_test = parts[-1].startswith(("test_", "conftest"))
        if not is_test and not _SKIPPED & {*parts} and all(map(str.isidentifier, parts)):
            yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path


def _read(name: str, path: Path, shown: str) -> Module:
    try:
        return Module(name, path)
    except SyntaxError as err:
        line, problem = f"{shown}:{err.lineno or 1}", f"not Python of this version: {err.msg}"
        remedy = "Correct it, or run aotbuild with the Python that runs it."
        raise ProjectError(line, problem, remedy) from err
    except (ValueError, RecursionError, MemoryError) as err:
        raise ProjectError(shown, f"not Python: {err}", "Correct it first.") from err


def _chosen(
    source: Module, name: str, functions: Sequence[FoundFunction], shown: str
) -> FoundFunction:
    found = {each.call.partition(":")[2]: each for each in functions}
    chosen = found.get(name) or source.plain(name)
    if chosen is None:
        names = [*dict.fromkeys((*found, *source.functions))]
        problem = f"it defines no function {name!r}{did_you_mean(name, names)}"
        raise ProjectError(shown, problem, f"It has: {', '.join(names[:8]) or 'none'}.")
    return chosen


# --- the manifest ---------------------------------------------------------------------------------


def functions_in(text: str) -> tuple[str, dict[str, str]]:
    """Return the package and the functions of a manifest, name to call.

    What is wrong in it is for `aotbuild plan`.
    """
    document = read_yaml(text, Problems("")) if text.strip() else None
    found = document.data if document and isinstance(document.data, dict) else {}
    functions = found.get("functions")
    entries = functions.items() if isinstance(functions, dict) else ()
    calls = {str(name): str(e.get("call", "")) for name, e in entries if isinstance(e, dict)}
    return str(found.get("package") or ""), calls


def _drafted(found: Sequence[tuple[str, FoundFunction]], taken: list[str]) -> list[Drafted]:
    entries = []
    for file, function in found:
        name = function_name(function.call, taken)
        taken.append(name)
        entries.append(Drafted(name, function, file, tuple(_lines(name, function))))
    return entries


def function_name(call: str, taken: Collection[str]) -> str:
    """Return a name for the Library: that of the function, longer if it is taken."""
    parts = [_snake(part).strip("_") for part in re.split(r"[.:]", call) if part != "__call__"]
    parts = [part for part in parts if part]
    for length in range(1, len(parts) + 1):
        name = "_".join(parts[-length:])
        if name not in taken and not function_name_problem(name):
            return name
    number = 2
    while f"{'_'.join(parts)}_{number}" in taken:
        number += 1
    return f"{'_'.join(parts)}_{number}"


def _snake(name: str) -> str:
    """Return the name of a class as that of a function: `TrainState` as `train_state`."""
    if not name[:1].isupper():
        return name
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def _lines(name: str, function: FoundFunction) -> Iterator[str]:
    yield f"  {flow(name)}:"
    yield from (f"    # {note}" for note in function.notes)
    yield f"    call: {function.call}"
    if function.args:
        yield "    args:"
        yield from (f"      - {name}: {TODO}" for name in function.args)
    if function.kwargs:
        yield "    kwargs:"
        yield from (f"      {name}: {TODO}" for name in function.kwargs)
    if function.static:
        yield f"    static: {flow(dict.fromkeys(function.static, UNKNOWN))}"
    if function.donate:
        yield f"    donate: {flow([*function.donate])}"
