"""The modules of a project: where their files are, found without importing anything."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aotbuild.errors import ProjectError
from aotbuild.format.files import read_regular_text
from aotbuild.format.index import FOLDER_NAME
from aotbuild.format.toml_text import read_toml
from aotbuild.format.words import did_you_mean

_GIVE = "Give its import name, such as mypkg.model, and the project's folder with --root."
# Where packages are without a word in pyproject.toml.
_USUAL = (".", "src")
_SKIPPED = {"__pycache__", "tests", "conftest", FOLDER_NAME}


@dataclass(frozen=True)
class ModuleFile:
    """A module of a project: its name, its file, the folder it is imported from, its package.

    `package` is the import package that receives `_aot/`: the outermost one with an `__init__.py`.
    """

    name: str
    path: Path
    import_root: Path
    package: str


def find_module(root: Path, name: str) -> ModuleFile:
    """Find the file of a module in a project; ProjectError names the places."""
    *packages, last = name.split(".")
    if name.endswith(".py") or "/" in name or not all(map(str.isidentifier, (*packages, last))):
        raise _no_name(root, name)
    places = [root / each for each in import_roots(root)]
    for place in places:
        folder = place.joinpath(*packages)
        for file in (folder / last / "__init__.py", folder / f"{last}.py"):
            if file.is_file():
                return _module(root, name, file, place.resolve())
    searched = "".join(f"\n  searched {place.joinpath(*packages, last)}" for place in places)
    known = [found for place in places for found in _names(place.joinpath(*packages))]
    hint = did_you_mean(last, known)
    raise ProjectError(str(root.resolve()), f"no module {name!r}{hint}{searched}", _GIVE)


def _no_name(root: Path, text: str) -> ProjectError:
    dotted = text.removesuffix(".py").replace("/", ".").removeprefix("src.")
    is_name = dotted != text and all(map(str.isidentifier, dotted.split(".")))
    hint = f" (did you mean {dotted!r}?)" if is_name else ""
    return ProjectError(str(root.resolve()), f"{text!r} is not the name of a module{hint}", _GIVE)


def modules_below(root: Path, name: str) -> list[ModuleFile]:
    """Return a package and all modules inside it but tests, in the order of their names."""
    top = find_module(root, name)
    if top.path.name != "__init__.py":
        return [top]
    found = [top]
    for path in sorted(top.path.parent.rglob("*.py")):
        inner = path.relative_to(top.path.parent).with_suffix("").parts
        is_test = inner[-1].startswith("test_") or inner[-1].endswith("_test")
        if _SKIPPED & {*inner} or is_test or any(not part.isidentifier() for part in inner):
            continue
        parts = inner[:-1] if inner[-1] == "__init__" else inner
        if parts and inner[-1] != "__main__":
            found.append(_module(root, ".".join((name, *parts)), path, top.import_root))
    return found


def import_roots(root: Path) -> list[str]:
    """Return the folders of a project that its packages may be imported from, relative to it."""
    try:
        text = read_regular_text(root / "pyproject.toml")
        tool = read_toml(text).get("tool", {})
        told = [*_told(tool)]
    except (OSError, ValueError, AttributeError, TypeError):
        told = []  # preparing the file tells what is wrong with it
    return list(dict.fromkeys((*_USUAL, *(each for each in told if isinstance(each, str)))))


def _told(tool: Mapping[str, Any]) -> Iterator[str]:
    """Yield the folders that the tables of build backends name."""
    hatch = tool.get("hatch", {}).get("build", {})
    for table in (hatch, hatch.get("targets", {}).get("wheel", {})):
        for package in table.get("packages", []):
            yield str(Path(package).parent)
        sources = table.get("sources", [])
        yield from (str(each) for each in sources if isinstance(each, str))
    yield tool.get("uv", {}).get("build-backend", {}).get("module-root", "src") or "."
    setuptools = tool.get("setuptools", {})
    yield from setuptools.get("package-dir", {}).values()
    find = setuptools.get("packages", {})
    yield from find.get("find", {}).get("where", []) if isinstance(find, dict) else ()
    for package in tool.get("poetry", {}).get("packages", []):
        yield package.get("from", ".")
    yield tool.get("pdm", {}).get("build", {}).get("package-dir", ".")


def _module(root: Path, name: str, path: Path, import_root: Path) -> ModuleFile:
    parts = name.split(".")
    if path.name != "__init__.py":
        parts.pop()
    for length in range(1, len(parts) + 1):
        if import_root.joinpath(*parts[:length], "__init__.py").is_file():
            return ModuleFile(name, path, import_root, ".".join(parts[:length]))
    shown = path.relative_to(root.resolve()) if path.is_relative_to(root.resolve()) else path
    problem = "it is in no package, and _aot/ needs one: a folder with an __init__.py"
    remedy = f"Move it into a folder, as mypkg/{path.name}, and name it mypkg.{path.stem}."
    if parts:
        remedy = f"Add an __init__.py to its folder {'/'.join(parts)}."
    raise ProjectError(str(shown), problem, remedy)


def _names(folder: Path) -> list[str]:
    found = [path.stem for path in folder.glob("*.py") if path.stem != "__init__"]
    return found + [path.parent.name for path in folder.glob("*/__init__.py")]
