"""Jitted functions in the source of a module, found with `ast`. Nothing is imported.

The names of a module are followed through its own imports and assignments.
"""

from __future__ import annotations

import ast
import tokenize
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aotbuild.format.wrap import FILTER_JIT, NNX_JIT

JAX_JIT = "jax.jit"
# What names of jits stand for. Read in jax 0.10.2 and 0.12.0.1, flax 0.12.8, equinox 0.13.8.
_JITS = {
    **dict.fromkeys(("jax.jit", "jax.pjit", "jax.experimental.pjit.pjit"), JAX_JIT),
    "flax.nnx.jit": NNX_JIT,
    "equinox.filter_jit": FILTER_JIT,
}
_PARTIAL = ("functools.partial", "jax.tree_util.Partial")
# Options of a jit that `init` leaves to a person.
_UNREAD = ("in_shardings", "out_shardings", "compiler_options", "keep_unused")
_LONGEST_WAY = 5  # how far a name is followed from assignment to assignment
_MAIN = "__name__ == '__main__'"
FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class FoundFunction:
    """A function that a manifest can name.

    Attributes:
        call: `module:qualname`.
        line: The line of its `def`, or of the assignment that makes it.
        jit: What it is under, as `jax.jit`; empty for a function without a jit.
        args: The names of the arguments by position, in order.
        kwargs: Those by name.
        static: Those that are static.
        donate: The arguments that are donated.
        notes: What a person has to know to finish its entry.
    """

    call: str
    line: int
    jit: str
    args: tuple[str, ...] = ()
    kwargs: tuple[str, ...] = ()
    static: tuple[str, ...] = ()
    donate: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class Module:
    """A module of Python source; SyntaxError or ValueError if it is none."""

    def __init__(self, name: str, path: Path) -> None:
        with tokenize.open(path) as file:
            self.tree = ast.parse(file.read(), str(path))
        self.name = name
        statements = [*_executed(self.tree.body)]
        self.imports = dict(pair for node in ast.walk(self.tree) for pair in _imported(node))
        self.functions = {s.name: s for s in statements if isinstance(s, FunctionNode)}
        assigned = [pair for s in statements for pair in _assignments(s)]
        names = [name for name, _ in assigned]
        self.assigned = {name: value for name, value in assigned if names.count(name) == 1}

    def find(self) -> list[FoundFunction]:
        """Return the functions under a jit that have a name."""
        return [self._function(*named) for named in self._named(self.tree.body, ())]

    def plain(self, name: str) -> FoundFunction | None:
        """Return a function at the top of the module that is under no jit."""
        node = self.functions.get(name)
        return self._function(name, node, _Jit("", {})) if node else None

    # --- jits -------------------------------------------------------------------------------------

    def _named(
        self, body: Sequence[ast.stmt], owners: tuple[str, ...]
    ) -> Iterator[tuple[str, ast.stmt, _Jit]]:
        """Yield the qualname, statement and jit of what a name leads to."""
        for statement in _executed(body):
            if isinstance(statement, FunctionNode):
                jits = filter(None, map(self._jit, statement.decorator_list))
                if jit := next(jits, None):
                    yield ".".join((*owners, statement.name)), statement, jit
            elif isinstance(statement, ast.ClassDef):
                yield from self._named(statement.body, (*owners, statement.name))
            else:
                for name, value in _assignments(statement):
                    jit = self._jit(value)
                    if jit and jit.wrapped is not None:
                        yield ".".join((*owners, name)), statement, jit

    def _jit(self, node: ast.expr | None, way: int = 0) -> _Jit | None:
        """Return the jit that an expression is: `jax.jit`, `partial(jax.jit, …)`, `jax.jit(f)`."""
        if isinstance(node, ast.Name) and node.id in self.assigned and way < _LONGEST_WAY:
            found = self._jit(self.assigned[node.id], way + 1)
            return found if found and found.wrapped is None else None
        if isinstance(node, ast.Name | ast.Attribute):
            kind = _JITS.get(self._dotted(node))
            return _Jit(kind, {}) if kind else None
        if not isinstance(node, ast.Call):
            return None
        arguments = node.args
        is_partial = self._dotted(node.func) in _PARTIAL and arguments
        inner = self._jit(arguments[0] if is_partial else node.func, way)
        if inner is None or inner.wrapped is not None:
            return None
        arguments = arguments[1:] if is_partial else arguments
        options = {each.arg: each.value for each in node.keywords if each.arg}
        wrapped = arguments[0] if arguments else options.pop("fun", None)
        return _Jit(inner.kind, {**inner.options, **options}, wrapped)

    # --- what the source says of a function -------------------------------------------------------

    def _function(self, qualname: str, node: ast.stmt, jit: _Jit) -> FoundFunction:
        """Return a function with its arguments, static values and options."""
        call, line = f"{self.name}:{qualname}", node.lineno
        wrapped = self._followed(jit.wrapped)
        if isinstance(wrapped, ast.Name):
            wrapped = self.functions.get(wrapped.id)
        definition = node if isinstance(node, FunctionNode) else wrapped
        if not isinstance(definition, FunctionNode | ast.Lambda):
            note = "its parameters are not in this module; write args: and kwargs:"
            return FoundFunction(call, line, jit.kind, args=("x",), notes=(note,))
        arguments = definition.args
        by_position = [*arguments.posonlyargs, *arguments.args]
        defaults = [None] * (len(by_position) - len(arguments.defaults)) + arguments.defaults
        parameters = {each.arg: each for each in (*by_position, *arguments.kwonlyargs)}
        given = dict(zip(parameters, (*defaults, *arguments.kw_defaults), strict=True))
        order = [each.arg for each in by_position]
        statics, donate = (self._chosen(jit, kind, order) for kind in ("static", "donate"))
        if "classmethod" in map(self._dotted, getattr(definition, "decorator_list", ())):
            parameters.pop(order[0], None)
        traced = [name for name in parameters if name not in statics and given[name] is None]
        left = [name for name in parameters if name not in statics and name not in traced]
        notes = [f"left at their defaults: {', '.join(left)}"] if left else []
        notes += [f"its jit has {name}=; write it here" for name in _UNREAD if name in jit.options]
        return FoundFunction(
            call,
            line,
            jit.kind,
            args=tuple(name for name in traced if name in order),
            kwargs=tuple(name for name in traced if name not in order),
            static=tuple(name for name in parameters if name in statics),
            donate=tuple(name for name in traced if name in donate and jit.kind != FILTER_JIT),
            notes=tuple(notes),
        )

    def _chosen(self, jit: _Jit, kind: str, order: Sequence[str]) -> set[str]:
        """Return the arguments that `static_argnums` and `static_argnames`, or donate_…, name."""
        found: set[str] = set()
        for option in (f"{kind}_argnums", f"{kind}_argnames"):
            value = self._literal(jit.options.get(option))
            for each in value if isinstance(value, tuple | list) else (value,):
                if isinstance(each, str):
                    found.add(each)
                elif isinstance(each, int) and -len(order) <= each < len(order):
                    found.add(order[each])
        return found

    # --- names ------------------------------------------------------------------------------------

    def _dotted(self, node: ast.AST) -> str:
        """Return what a name or attribute stands for, as `jax.jit`; empty for anything else."""
        node = self._followed(node)
        if isinstance(node, ast.Attribute):
            owner = self._dotted(node.value)
            return f"{owner}.{node.attr}" if owner else ""
        return self.imports.get(node.id, node.id) if isinstance(node, ast.Name) else ""

    def _followed(self, node: Any) -> Any:
        """Return the value that a global name was assigned once, or the node itself."""
        for _ in range(_LONGEST_WAY):
            if not isinstance(node, ast.Name) or node.id not in self.assigned:
                break
            node = self.assigned[node.id]
        return node

    def _literal(self, node: ast.expr | None) -> Any:
        try:
            return None if node is None else ast.literal_eval(self._followed(node))
        except (ValueError, TypeError):
            return None


@dataclass(frozen=True)
class _Jit:
    """A jit: its kind, its options, and what it wraps; None for a decorator."""

    kind: str
    options: dict[str, ast.expr]
    wrapped: ast.expr | None = None


def _executed(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements that an import executes; not those inside functions and classes."""
    for statement in body:
        yield statement
        is_main = isinstance(statement, ast.If) and ast.unparse(statement.test) == _MAIN
        if isinstance(statement, ast.If | ast.Try | ast.With | ast.For | ast.While) and not is_main:
            for part in ("body", "orelse", "finalbody"):
                yield from _executed(getattr(statement, part, []))
            for handler in getattr(statement, "handlers", []):
                yield from _executed(handler.body)


def _imported(node: ast.AST) -> Iterator[tuple[str, str]]:
    if isinstance(node, ast.Import):
        for alias in node.names:
            top = alias.name.partition(".")[0]  # `import a.b` binds `a`
            yield (alias.asname, alias.name) if alias.asname else (top, top)
    elif isinstance(node, ast.ImportFrom):
        module = "." * node.level + (node.module or "")
        yield from ((alias.asname or alias.name, f"{module}.{alias.name}") for alias in node.names)


def _assignments(statement: ast.stmt) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(statement, ast.Assign | ast.AnnAssign) and statement.value is not None:
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        yield from ((t.id, statement.value) for t in targets if isinstance(t, ast.Name))
