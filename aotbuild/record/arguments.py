"""What a manifest can say of an argument of a call in this process: its spec."""

from __future__ import annotations

from typing import Any

import jax

from aotbuild.format.wrap import Wrap, mark
from aotbuild.record.names import GlobalNames, main_name
from aotbuild.record.specs import RESERVED, TODO, avals_in
from aotbuild.runtime.jax.private import aval_of

# A larger tree is written by the name of a global that is it, if there is one.
_FEW_ARRAYS = 6


def describe_argument(value: Any, wrap: Wrap | None = None) -> Any:
    """Return the spec of an argument; NotAnArray for a leaf that is none.

    `wrap` is that of the function, which says what in the argument is static.
    """
    describer = _Describer(wrap)
    spec = describer.spec(value, "")
    if len([*avals_in(spec)]) > _FEW_ARRAYS and (name := describer.name(value)):
        return {"like": name}
    return spec


class _Describer:
    def __init__(self, wrap: Wrap | None) -> None:
        self._names, self._wrap = GlobalNames(), wrap

    def name(self, value: Any) -> str | None:
        """Return the name of a global, unless importing it would run the program itself."""
        name = self._names.name(value)
        return name if name and not _is_of_program(name) else None

    def spec(self, value: Any, place: str) -> Any:
        """Return the spec of a tree; `place` leads to it, as `['w']`."""
        kind = type(value)
        if value is None:
            return None
        if kind in (list, tuple):
            items = [self.spec(item, f"{place}[{index}]") for index, item in enumerate(value)]
            return items if kind is list else {"tuple": items}
        if kind is dict and all(type(key) is str for key in value):
            found = {key: self.spec(value[key], f"{place}[{key!r}]") for key in sorted(value)}
            return {"dict": found} if any(key in RESERVED for key in found) else found
        if jax.tree_util.all_leaves([self._marked(value)]):
            return str(aval_of(value))
        name = self.name(value) or self._equal(value)
        where = f"{place}: " if place else ""
        return {"like": name} if name else f"{TODO} {where}a {kind.__module__}.{kind.__qualname__}"

    def _equal(self, value: Any) -> str | None:
        """Return the name of a global of the same type, structure and avals."""
        leaves, tree = jax.tree_util.tree_flatten(self._marked(value))
        avals = [*map(aval_of, leaves)]
        for other, name in self._names.found():
            if type(other) is not type(value) or _is_of_program(name):
                continue
            try:
                found, its_tree = jax.tree_util.tree_flatten(self._marked(other))
                if its_tree == tree and [*map(aval_of, found)] == avals:
                    return name
            except Exception:  # noqa: BLE001, S112 - code of the user's types, which may raise
                continue
        return None

    def _marked(self, value: Any) -> Any:
        return mark(self._wrap, (value,))[0] if self._wrap else value


def _is_of_program(name: str) -> bool:
    return name.startswith(f"{main_name()}:")
