"""Types of arguments and results in a stub: what trees and leaves are to a type checker."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from aotbuild.format.about import with_inputs
from aotbuild.format.record import Record
from aotbuild.format.signature import Function
from aotbuild.format.tree import LEAF, Tree, children_of

_COLLECTIONS = ("collections:OrderedDict", "collections:defaultdict")


@dataclass(frozen=True)
class Arrays:
    """The types of arrays of a backend, and the lines that import or define them."""

    given: str
    returned: str
    lines: tuple[str, ...]

    @classmethod
    def of(cls, arrays: str) -> Arrays:
        """Return those of `load(arrays=…)`."""
        if arrays == "jax":
            return cls("ArrayLike", "jax.Array", ("import jax", "from jax.typing import ArrayLike"))
        numbers = "bool | int | float | complex"
        return cls(
            "ArrayLike",
            "Array",
            (
                "import numpy as np",
                "",
                "Array = np.ndarray[Any, Any]",
                f"ArrayLike = Array | np.generic | {numbers}",
            ),
        )


@dataclass
class Types:
    """Writes types, and keeps what has to be imported for them."""

    arrays: Arrays
    modules: set[str] = field(default_factory=set)

    def imports(self, *, has_overloads: bool) -> Iterator[str]:
        """Yield the lines that come before the classes."""
        own = ["Any", "Literal", "Protocol", *(["overload"] if has_overloads else [])]
        for module in sorted(self.modules):
            # Not every package publishes types.
            yield f"import {module}  # type: ignore[import-untyped,unused-ignore]"
        yield f"from typing import {', '.join(own)}"
        yield ""
        yield from (line for line in self.arrays.lines if "=" not in line and line)
        yield "from aotbuild.runtime.typed import TypedKernel, TypedLibrary"
        aliases = [line for line in self.arrays.lines if "=" in line]
        yield from ["", *aliases] if aliases else []

    def arguments(self, function: Function, record: Record) -> Iterator[tuple[str, str]]:
        """Yield name and type of each argument that is not static."""
        args, kwargs = children_of(record.signature.tree)
        keys = kwargs[1] if kwargs[0] == "dict" else ()
        named = (*function.dynamic, *map(str, keys))
        trees = (*children_of(args), *children_of(kwargs))
        for name, tree in zip(named, trees, strict=False):
            # Under a wrap, arguments are objects of which the index has the arrays only.
            yield name, "Any" if function.wrap else self._type(tree, is_result=False)

    def result(self, function: Function, record: Record) -> str:
        """Return the type of a result."""
        if function.wrap:
            return "Any"
        tree = with_inputs(record.calling.out_tree, record.signature.tree)
        return self._type(tree, is_result=True)

    def _type(self, tree: Tree, *, is_result: bool) -> str:
        if tree == LEAF:
            return self.arrays.returned if is_result else self.arrays.given
        kind, children = tree[0], children_of(tree)
        if kind == "none":
            return "None"
        if kind in ("node", "namedtuple"):
            return self._named(tree[1])
        if kind not in ("tuple", "list", "dict"):
            return "Any"
        types = [self._type(child, is_result=is_result) for child in children]
        if kind == "tuple":
            return f"tuple[{', '.join(types) or '()'}]"
        # What a caller passes may be a list of a narrower type, which is no list of this one.
        inner = types[0] if is_result and len(set(types)) == 1 else "Any"
        if kind == "list":
            return f"list[{inner}]"
        keys = "str" if all(isinstance(key, str) for key in tree[1]) else "Any"
        return f"dict[{keys}, {inner}]"

    def _named(self, name: object) -> str:
        if not isinstance(name, str):
            return "Any"
        module, _, qualname = name.partition(":")
        parts = (*module.split("."), *qualname.split("."))
        if not all(part.isidentifier() for part in parts):
            return "Any"
        self.modules.add(module)
        inner = "[Any, Any]" if name in _COLLECTIONS else ""
        return f"{module}.{qualname}{inner}"
