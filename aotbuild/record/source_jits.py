"""Where a module has a jit: on a function, on a method, or around what a name is assigned."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, replace

from aotbuild.format.wrap import FILTER_JIT, NNX_JIT
from aotbuild.record.source import NEVER_IMPORTED, FunctionNode, ModuleSource
from aotbuild.record.source_functions import LeftOut

JAX_JIT = "jax.jit"
# What names of jits stand for. Read in jax 0.10.2 and 0.12.0.1, flax 0.12.8, equinox 0.13.8.
_JITS = {
    **dict.fromkeys(("jax.jit", "jax.api.jit", "jax._src.api.jit", "jax.pjit"), JAX_JIT),
    **dict.fromkeys(("jax.experimental.pjit.pjit", "jax.experimental.pjit"), JAX_JIT),
    **dict.fromkeys(("flax.nnx.jit", "flax.experimental.nnx.jit"), NNX_JIT),
    "equinox.filter_jit": FILTER_JIT,
}
_PARTIAL = ("functools.partial", "jax.tree_util.Partial")
# Others that compile, and that aotbuild has no word for.
_OTHERS = {
    "jax.pmap": "write it with jax.jit and shardings, or jax.shard_map inside of jax.jit",
    "flax.nnx.pmap": "write it with nnx.jit and shardings",
    "equinox.filter_pmap": "write it with eqx.filter_jit and shardings",
    "flax.linen.jit": "put a jax.jit around the `apply` that calls the module",
    "haiku.jit": "put a jax.jit around the transformed function",
}
_AT_TOP = "Move it to the top of the module, or give what makes it a name there"
_WAY = 5


@dataclass(frozen=True)
class Jit:
    """A jit: its kind (`jax.jit`, `nnx.jit`, `eqx.filter_jit`), its options, and what it wraps.

    `wrapped` is None for a decorator.
    """

    kind: str
    options: dict[str, ast.expr]
    wrapped: ast.expr | None = None


@dataclass(frozen=True)
class JitPlace:
    """A jit that a manifest can name.

    `function` is the definition that it decorates; without one, `jit.wrapped` is what it wraps.
    `owner` is the class that it is in. `outside` and `inside` are the other decorators.
    """

    qualname: str
    line: int
    jit: Jit
    function: FunctionNode | None = None
    owner: ast.ClassDef | None = None
    outside: tuple[ast.expr, ...] = ()
    inside: tuple[ast.expr, ...] = ()


def read_jit(module: ModuleSource, node: ast.AST | None, way: int = 0) -> Jit | None:
    """Return the jit that an expression is: `jax.jit`, `partial(jax.jit, …)`, `jax.jit(f, …)`."""
    if isinstance(node, ast.Name) and node.id in module.assigned and way < _WAY:
        found = read_jit(module, module.assigned[node.id], way + 1)
        # A name of a finished function is no decorator.
        return found if found and found.wrapped is None else None
    if isinstance(node, ast.Name | ast.Attribute):
        kind = _JITS.get(module.dotted(node))
        return Jit(kind, {}) if kind else None
    if not isinstance(node, ast.Call):
        return None
    arguments = node.args
    if module.dotted(node.func) in _PARTIAL and arguments:
        inner, arguments = read_jit(module, arguments[0], way), arguments[1:]
    else:
        inner = read_jit(module, node.func, way)
    if inner is None or inner.wrapped is not None:
        return None
    options = {keyword.arg: keyword.value for keyword in node.keywords if keyword.arg}
    wrapped = arguments[0] if arguments else options.pop("fun", None) or options.pop("fn", None)
    return replace(inner, options={**inner.options, **options}, wrapped=wrapped)


def find_jits(module: ModuleSource) -> Iterator[JitPlace | LeftOut]:
    """Yield every jit of a module, in the order of the source."""
    yield from _Finder(module).body(module.tree.body, (), None)


@dataclass(frozen=True)
class _Finder:
    module: ModuleSource

    def body(
        self, body: list[ast.stmt], path: tuple[str, ...], owner: ast.ClassDef | None
    ) -> Iterator[JitPlace | LeftOut]:
        """Yield the jits of the statements of a module or class, also in `if` and `try`."""
        for statement in body:
            if isinstance(statement, FunctionNode):
                yield from self._function(statement, path, owner)
            elif isinstance(statement, ast.ClassDef):
                yield from self.body(statement.body, (*path, statement.name), statement)
            elif isinstance(statement, ast.If) and ast.unparse(statement.test) in NEVER_IMPORTED:
                yield from self._inside(statement.body, "is made only where the file is run")
                yield from self.body(statement.orelse, path, owner)
            elif isinstance(statement, ast.If | ast.Try | ast.With | ast.For | ast.While):
                for part in ("body", "orelse", "finalbody"):
                    yield from self.body(getattr(statement, part, []), path, owner)
                for handler in getattr(statement, "handlers", []):
                    yield from self.body(handler.body, path, owner)
            else:
                yield from self._statement(statement, path, owner)

    def _function(
        self, node: FunctionNode, path: tuple[str, ...], owner: ast.ClassDef | None
    ) -> Iterator[JitPlace | LeftOut]:
        decorators = node.decorator_list
        for place, decorator in enumerate(decorators):
            jit, other = read_jit(self.module, decorator), self._other(decorator)
            if jit:
                qualname = ".".join((*path, node.name))
                inside, outside = decorators[place + 1 :], decorators[:place]
                found = JitPlace(qualname, node.lineno, jit, node, owner)
                yield replace(found, inside=tuple(inside), outside=tuple(outside))
                break
            if other:
                yield self._left_out(node, node.name, f"is under {other}", _OTHERS[other])
                break
        name = ".".join((*path, node.name))
        yield from self._inside(node.body, f"is made inside {name}(), anew in each call")

    def _statement(
        self, statement: ast.stmt, path: tuple[str, ...], owner: ast.ClassDef | None
    ) -> Iterator[JitPlace | LeftOut]:
        target = _target(statement)
        value = getattr(statement, "value", None)
        jit = read_jit(self.module, value) if target else None
        if jit and jit.wrapped is not None:
            yield JitPlace(".".join((*path, target)), statement.lineno, jit, owner=owner)
        elif not jit:
            yield from self._inside([statement], "has no name of its own at the top of the module")

    def _inside(self, body: list[ast.stmt], reason: str) -> Iterator[LeftOut]:
        """Yield the jits in statements where no name leads to them."""
        nodes = (node for statement in body for node in ast.walk(statement))
        for node in sorted(nodes, key=lambda n: getattr(n, "lineno", 0)):
            if isinstance(node, FunctionNode):
                kinds = [jit.kind for d in node.decorator_list if (jit := self._jit(d))]
                if kinds:
                    yield self._left_out(node, f"{kinds[0]} of {node.name}", reason)
            elif isinstance(node, ast.Call):
                jit, other = read_jit(self.module, node), self._other(node.func)
                if jit and jit.wrapped is not None:
                    yield self._call(node, jit, reason)
                elif other and node.args:
                    yield self._left_out(node, other, reason, _OTHERS[other])

    def _call(self, node: ast.Call, jit: Jit, reason: str) -> LeftOut:
        wrapped = jit.wrapped
        if isinstance(wrapped, ast.Name) and wrapped.id in self.module.functions:
            remedy = f"Name the function itself: aotbuild init {self.module.name}:{wrapped.id}"
            return self._left_out(node, f"{jit.kind} of {wrapped.id}", reason, remedy)
        is_lambda = isinstance(wrapped, ast.Lambda)
        what = "a lambda" if is_lambda or wrapped is None else _name(wrapped)
        return self._left_out(node, f"{jit.kind} of {what}", reason)

    def _jit(self, node: ast.expr) -> Jit | None:
        found = read_jit(self.module, node)
        return found if found and found.wrapped is None else None

    def _other(self, node: ast.expr) -> str:
        """Return the name of another transformation that compiles, if it is one."""
        if isinstance(node, ast.Call):
            is_partial = self.module.dotted(node.func) in _PARTIAL and node.args
            return self._other(node.args[0] if is_partial else node.func)
        dotted = self.module.dotted(node)
        return dotted if dotted in _OTHERS else ""

    def _left_out(
        self, node: ast.AST, what: str, reason: str, remedy: str = f"{_AT_TOP}: name = make(…)"
    ) -> LeftOut:
        return LeftOut(self.module.file, getattr(node, "lineno", 0), what, reason, remedy)


def _target(statement: ast.stmt) -> str:
    """Return the name that a statement assigns; empty if it is none, or there are several."""
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target = statement.targets[0]
    elif isinstance(statement, ast.AnnAssign):
        target = statement.target
    else:
        return ""
    return target.id if isinstance(target, ast.Name) else ""


def _name(node: ast.expr) -> str:
    text = ast.unparse(node)
    return text if len(text) <= 40 else f"{text[:39]}…"
