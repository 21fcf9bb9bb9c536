"""The source of a module: its statements, what its names stand for, and its comments.

Nothing is imported: names are followed through the module's own imports and assignments.
"""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from aotbuild.format.files import read_regular

# How far a name is followed from assignment to assignment.
_LONGEST_WAY = 5
# Conditions that no import fulfills.
NEVER_IMPORTED = ("TYPE_CHECKING", "typing.TYPE_CHECKING", "__name__ == '__main__'")
FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class ModuleSource:
    """A module: its name, its file as messages show it, and the text.

    ValueError or SyntaxError if it is no Python of this version.
    """

    name: str
    file: str
    text: str
    tree: ast.Module = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "tree", ast.parse(self.text, self.file))

    @cached_property
    def imports(self) -> dict[str, str]:
        """What imported names stand for, as `jit` for `jax.jit`; also inside of functions."""
        found: dict[str, str] = {}
        for node in ast.walk(self.tree):
            for name, dotted in _imported(node):
                found.setdefault(name, dotted)
        return found

    @cached_property
    def assigned(self) -> dict[str, ast.expr]:
        """The values of global names that are assigned once."""
        found: dict[str, list[ast.expr]] = {}
        for statement in top_level(self.tree.body):
            for name, value in _assignments(statement):
                found.setdefault(name, []).append(value)
        return {name: values[0] for name, values in found.items() if len(values) == 1}

    @cached_property
    def functions(self) -> dict[str, FunctionNode]:
        """The functions that the module defines at its top."""
        found = (node for node in top_level(self.tree.body) if isinstance(node, FunctionNode))
        return {node.name: node for node in found}

    @cached_property
    def classes(self) -> dict[str, ast.ClassDef]:
        """The classes that the module defines at its top."""
        found = (node for node in top_level(self.tree.body) if isinstance(node, ast.ClassDef))
        return {node.name: node for node in found}

    @cached_property
    def comments(self) -> dict[int, str]:
        """The comments by line, without their `#`."""
        found: dict[int, str] = {}
        try:
            for token in tokenize.generate_tokens(io.StringIO(self.text).readline):
                if token.type == tokenize.COMMENT:
                    found[token.start[0]] = token.string.lstrip("#").strip()
        except (tokenize.TokenError, IndentationError):
            pass  # what ast reads, and tokenize does not, has the comments so far
        return found

    def dotted(self, node: ast.AST | None, way: int = 0) -> str:
        """Return what a name or attribute stands for, as `jax.jit`; empty for anything else."""
        if isinstance(node, ast.Attribute):
            owner = self.dotted(node.value, way)
            return f"{owner}.{node.attr}" if owner else ""
        if not isinstance(node, ast.Name):
            return ""
        value = self.assigned.get(node.id)
        if isinstance(value, ast.Name | ast.Attribute) and way < _LONGEST_WAY:
            return self.dotted(value, way + 1) or node.id
        return self.imports.get(node.id, node.id)

    def follow(self, node: ast.AST | None) -> ast.AST | None:
        """Return the value that a global name was assigned, or the node itself."""
        for _ in range(_LONGEST_WAY):
            if not isinstance(node, ast.Name) or node.id not in self.assigned:
                break
            node = self.assigned[node.id]
        return node

    def literal(self, node: ast.AST | None) -> object:
        """Return the value of a literal, also of one that a global name has.

        ValueError for anything that only running the module would tell.
        """
        found = self.follow(node)
        try:
            return ast.literal_eval(found) if isinstance(found, ast.expr) else None
        except (ValueError, TypeError, MemoryError, RecursionError) as err:
            msg = "not a literal"
            raise ValueError(msg) from err


def read_module(name: str, path: Path, file: str) -> ModuleSource:
    """Read a module; OSError, or ValueError or SyntaxError that says what is wrong with it."""
    data = read_regular(path)
    encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
    text = io.TextIOWrapper(io.BytesIO(data), encoding, newline=None).read()
    return ModuleSource(name, file, text)


def top_level(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements that an import executes; not those inside functions and classes."""
    for statement in body:
        yield statement
        if isinstance(statement, ast.If):
            if ast.unparse(statement.test) not in NEVER_IMPORTED:
                yield from top_level(statement.body)
            yield from top_level(statement.orelse)
        elif isinstance(statement, ast.Try):
            for part in (statement.body, statement.orelse, statement.finalbody):
                yield from top_level(part)
            for handler in statement.handlers:
                yield from top_level(handler.body)
        elif isinstance(statement, ast.With | ast.For | ast.While):
            yield from top_level(statement.body)


def _imported(node: ast.AST) -> Iterator[tuple[str, str]]:
    if isinstance(node, ast.Import):
        for alias in node.names:
            # `import a.b` binds `a`.
            top = alias.name.partition(".")[0]
            yield (alias.asname, alias.name) if alias.asname else (top, top)
    elif isinstance(node, ast.ImportFrom):
        module = "." * node.level + (node.module or "")
        for alias in node.names:
            yield alias.asname or alias.name, f"{module}.{alias.name}"


def _assignments(statement: ast.stmt) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(statement, ast.Assign):
        for target in statement.targets:
            if isinstance(target, ast.Name):
                yield target.id, statement.value
    elif isinstance(statement, ast.AnnAssign):
        target, value = statement.target, statement.value
        if isinstance(target, ast.Name) and value is not None:
            yield target.id, value
