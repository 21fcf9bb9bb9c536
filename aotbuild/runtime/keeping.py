"""Results that stay on the device for the next call: which leaves of the output tree they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from aotbuild.errors import AotbuildError

if TYPE_CHECKING:
    from aotbuild.runtime.backend import Trees


@dataclass(frozen=True)
class Kept:
    """The results that a kernel keeps: keys, fields or indices of the result, all of them if none.

    `function` is the name of the function, for errors.
    """

    function: str
    names: tuple[int | str, ...]

    def leaves(self, out_tree: Any, trees: Trees) -> frozenset[int]:
        """Return the indices of the leaves that are kept; AotbuildError for an unknown name."""
        count = out_tree.num_leaves
        if not self.names:
            return frozenset(range(count))
        paths = trees.paths(out_tree.unflatten(range(count)))
        tops = [_names_of(path[0], out_tree) if path else () for path in paths]
        known = list(dict.fromkeys(name for names in tops for name in names))
        unknown = [name for name in self.names if name not in known]
        if unknown:
            raise self._unknown(unknown, known)
        return frozenset(i for i, names in enumerate(tops) if {*names} & {*self.names})

    def _unknown(self, unknown: list[int | str], known: list[int | str]) -> AotbuildError:
        asked = ", ".join(map(repr, self.names))
        expected = f"some of {', '.join(map(repr, known))}" if known else "no names"
        return AotbuildError(
            f"{self.function}: keeping({asked})\n"
            f"  expected {expected}\n"
            f"  found    {', '.join(map(repr, unknown))}\n"
            "Name results by their key, field or index; keeping() keeps all of them."
        )


def _names_of(key: Any, out_tree: Any) -> tuple[int | str, ...]:
    """Return the names of a top-level result; a field of a namedtuple has its index, too."""
    attributes = ("key", "idx", "name")
    name: Any = next(getattr(key, each) for each in attributes if hasattr(key, each))
    node_data = out_tree.node_data()
    fields = getattr(node_data[0], "_fields", ()) if node_data else ()
    return (name, fields.index(name)) if name in fields else (name,)
