"""What an argument of a call is: the description of its tree, and the avals of its leaves.

Static data that cannot be decoded from its identity gets a construction (`format.constructions`),
so that a build can make the tree again.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import jax

from aotbuild.format.aval import Aval, NotAnArray
from aotbuild.format.canonical import canonical_json
from aotbuild.format.constructions import MADE, Constructions
from aotbuild.format.identity import NAMED, Identities
from aotbuild.format.tree import Describer, Tree, TreeDef, TreeRefused, field_labels
from aotbuild.format.values import NotEncodable, decode
from aotbuild.format.wrap import Wrap, mark
from aotbuild.record.global_names import GlobalNames
from aotbuild.record.main_module import MAIN, main_name, renamed
from aotbuild.runtime.jax.private import aval_of

_LIKE = "name a function that makes it with like:"
# By the identity of static data, as canonical JSON: its construction, or why it has none. Equal
# identities need no second search.
_known: dict[bytes, tuple[Any, str]] = {}


def describe_argument(
    value: Any, wrap: Wrap | None = None
) -> tuple[Tree | None, tuple[Aval, ...], str]:
    """Return the description of an argument's tree, the avals of its leaves, and a problem.

    The tree is as `format.tree` describes it, with constructions. It is None where it has no
    description. The problem says why no manifest can have it, and what to do; it is empty if one
    can. `wrap` is that of the function, which says what in the argument is static.
    """
    value = mark(wrap, (value,))[0] if wrap else value
    try:
        leaves, treedef = jax.tree_util.tree_flatten(value)
    except ValueError as err:
        return None, (), f"it is no pytree: {err}; use dict keys of one type that can be sorted"
    try:
        avals = tuple(map(aval_of, leaves))
    except NotAnArray as err:
        return None, (), f"a leaf is {err}; jax.jit takes it as a static argument only"
    describer = _RecordingDescriber()
    try:
        tree = describer.describe(treedef)
    except TreeRefused as err:
        return None, avals, f"{_place(value, err.path)}: a {err.node}: {err.reason}; {_LIKE}"
    return renamed(tree) if main_name() else tree, avals, describer.problem(value)


class _RecordingDescriber(Describer):
    """Describes treedefs with constructions, and keeps what has none."""

    def __init__(self) -> None:
        super().__init__()
        self._at: tuple[tuple[int, ...], type] = (), type(None)
        self._problems: dict[tuple[int, ...], tuple[type, str]] = {}
        self._is_inside = False
        self._constructions = Constructions(self._describe_inside, GlobalNames().name)

    @cached_property
    def _identities(self) -> Identities:
        return Identities(self._describe_inside, {}, local=False)

    def _describe_inside(self, treedef: TreeDef) -> Tree:
        """Describe a treedef in static data; a problem in it is one of the node that has it."""
        before, self._is_inside = self._is_inside, True
        try:
            return self.describe(treedef)
        finally:
            self._is_inside = before

    def problem(self, value: Any) -> str:
        """Return what cannot be made again, and where in the argument it is; empty if all can."""
        found = [
            f"{_place(value, path)}: a {kind.__module__}.{kind.__qualname__}: {reason}"
            for path, (kind, reason) in self._problems.items()
        ]
        return f"{'; '.join(found[:3])}; {_LIKE}" if found else ""

    def _head(self, kind: type, aux: Any, path: tuple[int, ...], arity: int) -> list[Any]:
        if not self._is_inside:
            self._at = path, kind
        return super()._head(kind, aux, path, arity)

    def _field(self, kind: type, aux: Any, path: tuple[int, ...], index: int) -> Any:
        had_problem = path in self._problems
        found = super()._field(kind, aux, path, index)
        if not (had_problem or self._is_inside) and path in self._problems:
            label = field_labels(kind, len(aux))[index]
            self._problems[path] = kind, f"{label}: {self._problems[path][1]}"
        return found

    def _type(self, kind: type) -> Any:
        found = super()._type(kind)
        if isinstance(found, str) and found.startswith(f"{MAIN}:") and not main_name():
            self._note(_in_program(found))
        return found

    def _identity(self, value: Any) -> Any:
        found = super()._identity(value)
        if _is_decodable(found):
            if (program := next(_names_of_program(found), "")) and not main_name():
                self._note(_in_program(program))
            return found
        construction, reason = self._construction(canonical_json(found), value)
        if reason:
            self._note(reason)
            return found
        version = "{}.{}".format(*sys.version_info)
        return {MADE: [version, found, construction]}

    def _construction(self, identity: bytes, value: Any) -> tuple[Any, str]:
        if identity not in _known:
            try:
                _known[identity] = self._constructions.of(value), ""
            except NotEncodable as err:
                _known[identity] = None, str(err)
            except Exception as err:  # noqa: BLE001 (the user's properties may raise anything)
                reason = f"reading it raised {type(err).__name__}: {err}"
                _known[identity] = None, reason
        return _known[identity]

    def _note(self, reason: str) -> None:
        path, kind = self._at
        self._problems.setdefault(path, (kind, reason))


def _in_program(name: str) -> str:
    return f"{name} is in the program itself; move it into a module that can be imported"


def _is_decodable(found: Any) -> bool:
    """Return whether a build can decode an identity as it is."""
    others = {"numpy": lambda *_: None, "dtype": lambda *_: None, "treedef": lambda *_: None}
    try:
        decode(found, {**others, **NAMED, MADE: lambda *_: None})
    except ValueError:
        return False
    return True


def _names_of_program(found: Any) -> Iterator[str]:
    """Yield the names in an identity that lead into the program itself."""
    if isinstance(found, dict) and len(found) == 1:
        (tag, body), *_ = found.items()
        name = body[0] if tag in ("enum", "object") else body
        if tag in NAMED and name.startswith(f"{MAIN}:"):
            yield name
        found = [body]
    for item in found if isinstance(found, list) else ():
        yield from _names_of_program(item)


def _place(value: Any, path: tuple[int, ...]) -> str:
    """Return where child indices lead to in an argument, as `.opt_state[0]`."""
    text = ""
    for index in path:
        children = _children(value)
        if index >= len(children):
            break
        entries, value = children[index]
        text += jax.tree_util.keystr(entries)
    return text or "the argument itself"


def _children(value: Any) -> list[tuple[Any, Any]]:
    """Return the children of a node, with their key paths."""
    found: list[tuple[Any, Any]]
    found, _ = jax.tree_util.tree_flatten_with_path(value, is_leaf=lambda x: x is not value)
    return found
