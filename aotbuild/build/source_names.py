"""Whether the project's sources define what a manifest names, found by reading them. Pure.

Nothing is imported, so a name counts as missing only where nothing in the source could define it:
a star import, a `__getattr__` or `globals()` leave a doubt. Modules that are not the project's are
not looked for.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from aotbuild.build.sources import SourceTree
from aotbuild.format.files import read_regular, read_regular_text
from aotbuild.format.words import did_you_mean

# With these, code can define a variable of a module that no statement names.
_DEFINES_ANYTHING = {"globals", "locals", "vars", "exec", "eval", "setattr"}
_COMPILED = (".so", ".pyd", ".pyc")
# Conditions that no import fulfills.
_NEVER = ("TYPE_CHECKING", "typing.TYPE_CHECKING", "__name__ == '__main__'")
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


@dataclass(frozen=True)
class Missing:
    """What a reference names does not exist; the text says what, and what does."""

    text: str


@dataclass(frozen=True)
class Doubt:
    """It is not in the source, but might exist after the import; the text says why."""

    text: str


@dataclass
class _Scope:
    """The names that the statements of a module or class define, and modules behind stars."""

    names: dict[str, ast.AST] = field(default_factory=dict)
    stars: list[ast.ImportFrom] = field(default_factory=list)


class SourceNames:
    """The names that the modules of a project define, as far as their source says it."""

    def __init__(self, sources: SourceTree) -> None:
        self._root = sources.import_root
        self._top = self._root / sources.package.partition(".")[0]
        self._trees: dict[Path, ast.Module | Doubt] = {}

    def problem(self, reference: str) -> Missing | Doubt | None:
        """Return what is wrong with `module:qualname`, if anything is.

        None also where the module is not the project's.
        """
        module, _, qualname = reference.partition(":")
        file = self._file(module)
        if not isinstance(file, Path):
            return file
        return self._look(file, qualname.split("."), frozenset())

    def _file(self, module: str) -> Path | Missing | None:
        """Return the source of a module; None if it has none, or is not the project's."""
        *packages, last = module.split(".")
        folder = self._root
        for name in packages:
            folder /= name
            # Other folders may be parts of the package, too: without __init__.py, or by __path__.
            init = folder / "__init__.py"
            if not init.is_file() or "__path__" in _text(init):
                return None
        for file in (folder / last / "__init__.py", folder / f"{last}.py"):
            if file.is_file():
                return file
            if file.exists() and not file.is_dir():  # a device, a pipe
                return Missing(f"{self._shown(file)} is not a regular file")
        compiled = any(path.name.endswith(_COMPILED) for path in folder.glob(f"{last}.*"))
        if compiled or (folder / last).is_dir() or not packages:
            return None
        known = [path.stem for path in folder.glob("*.py")]
        known += [path.parent.name for path in folder.glob("*/__init__.py")]
        return Missing(f"{self._shown(folder)} has no module {last!r}{did_you_mean(last, known)}")

    def _look(self, file: Path, parts: list[str], seen: frozenset[Path]) -> Missing | Doubt | None:
        tree = self._tree(file)
        if isinstance(tree, Doubt):
            return tree
        name, *rest = parts
        scope = _scope(tree.body)
        if name in scope.names:
            return self._look_inside(scope.names[name], rest, self._shown(file))
        if file.name == "__init__.py":
            for module in (file.parent / f"{name}.py", file.parent / name / "__init__.py"):
                if module.is_file():
                    return self._look(module, rest, seen) if rest else None
        if name.startswith("__"):
            return None
        for star in scope.stars:
            beyond = self._beyond(star, file, parts, seen | {file})
            if not isinstance(beyond, Missing):
                return beyond
        doubt = _doubt(tree, scope, self._shown(file)) or self._assigned(name)
        hint = did_you_mean(name, scope.names)
        return doubt or Missing(f"{self._shown(file)} defines no {name!r}{hint}")

    def _look_inside(self, node: ast.AST, parts: list[str], shown: str) -> Missing | Doubt | None:
        """Look for what a class has; only one that inherits nothing is known from here."""
        if not isinstance(node, ast.ClassDef) or not parts or parts[0].startswith("__"):
            return None
        name, scope = parts[0], _scope(node.body)
        if name in scope.names:
            return None
        where = f"class {node.name} of {shown}"
        if node.bases or node.keywords or node.decorator_list or scope.stars:
            return Doubt(f"{where} does not define {name!r} itself")
        hint = did_you_mean(name, scope.names)
        return self._assigned(name) or Missing(f"{where} defines no {name!r}{hint}")

    def _beyond(
        self, star: ast.ImportFrom, file: Path, parts: list[str], seen: frozenset[Path]
    ) -> Missing | Doubt | None:
        """Look for a name in a module from which everything is imported."""
        module = f"{'.' * star.level}{star.module or ''}"
        there = self._file(self._absolute(star, file))
        if not isinstance(there, Path):
            return Doubt(f"{self._shown(file)} imports everything of {module}")
        if there in seen:
            return Missing("")
        return self._look(there, parts, seen)

    def _absolute(self, star: ast.ImportFrom, file: Path) -> str:
        """Return the name of the module of an import."""
        if not star.level:
            return star.module or ""
        folder = file.parent
        for _ in range(star.level - 1):
            folder = folder.parent
        below = folder.relative_to(self._root).parts if folder.is_relative_to(self._root) else ()
        return ".".join([*below, *filter(None, [star.module])])

    def _assigned(self, name: str) -> Doubt | None:
        """Return a doubt if any file of the project sets an attribute of that name."""
        for file in sorted(self._top.rglob("*.py")):
            tree = self._tree(file) if f".{name}" in _text(file) else None
            if isinstance(tree, ast.Module) and any(_sets(node, name) for node in ast.walk(tree)):
                return Doubt(f"{self._shown(file)} sets an attribute {name!r}")
        return None

    def _tree(self, file: Path) -> ast.Module | Doubt:
        if file not in self._trees:
            try:
                self._trees[file] = ast.parse(read_regular(file), str(file))
            except (OSError, SyntaxError, ValueError) as err:
                # A toolchain may have a newer Python.
                self._trees[file] = Doubt(f"{self._shown(file)} cannot be read: {err}")
            except (RecursionError, MemoryError):  # the latter is of Python's parser
                self._trees[file] = Doubt(f"{self._shown(file)} cannot be read: nested too deeply")
        return self._trees[file]

    def _shown(self, path: Path) -> str:
        return path.relative_to(self._root).as_posix()


def _scope(body: list[ast.stmt]) -> _Scope:
    scope = _Scope()
    for node in _nodes(body):
        for name in _defined(node):
            # A class that is defined again elsewhere, or may be, is not known.
            scope.names[name] = ast.Pass() if name in scope.names else node
        if isinstance(node, ast.ImportFrom) and node.names[0].name == "*":
            scope.stars.append(node)
    return scope


def _nodes(body: list[ast.stmt]) -> Iterator[ast.AST]:
    """Yield the nodes that an import executes, without what functions and classes have inside."""
    waiting: list[ast.AST] = [*body]
    while waiting:
        node = waiting.pop()
        yield node
        if isinstance(node, ast.If) and ast.unparse(node.test) in _NEVER:
            waiting += node.orelse
        elif isinstance(node, ast.AnnAssign) and node.value is None:
            continue
        else:
            # Decorators, defaults and bases are executed; what a body defines is its own.
            inside = getattr(node, "body", ()) if isinstance(node, _SCOPES) else ()
            own = inside if isinstance(inside, list) else [inside]
            waiting += [child for child in ast.iter_child_nodes(node) if child not in own]


def _defined(node: ast.AST) -> list[str]:
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return [node.name, *_made_global(node)]
        case ast.Import() | ast.ImportFrom():
            return [alias.asname or alias.name.partition(".")[0] for alias in node.names]
        case ast.Name(id=name, ctx=ast.Store()):
            return [name]
        case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
            return [name]
        case ast.MatchMapping(rest=str(name)):
            return [name]
    return []


def _made_global(function: ast.AST) -> Iterator[str]:
    for node in ast.walk(function):
        if isinstance(node, ast.Global):
            yield from node.names


def _doubt(tree: ast.Module, scope: _Scope, shown: str) -> Doubt | None:
    """Return why a module may define more than its statements name."""
    if "__getattr__" in scope.names:
        return Doubt(f"{shown} has a __getattr__")
    for node in ast.walk(tree):
        word = node.id if isinstance(node, ast.Name) else ""
        if word in _DEFINES_ANYTHING:
            return Doubt(f"{shown} calls {word}")
        if isinstance(node, ast.Attribute) and ast.unparse(node) == "sys.modules":
            return Doubt(f"{shown} uses sys.modules")
    return None


def _sets(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == name and isinstance(node.ctx, ast.Store)


def _text(file: Path) -> str:
    try:
        return read_regular_text(file, "replace")
    except OSError:
        return ""
