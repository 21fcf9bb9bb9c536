"""A function as the YAML declares it: its options, and where each one is written."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from aotbuild.manifest.function import SIGNATURE_OPTIONS, Function, Options
from aotbuild.manifest.nodes import (
    MapNode,
    Mark,
    Node,
    Problems,
    ScalarNode,
    Steps,
    child,
    dotted,
    walk,
)

MERGED = frozenset({"config", "env", "compiler_options"})


@dataclass(frozen=True)
class Declaration:
    """One function, for checks: its options with the defaults applied, and the nodes they are in.

    `key` is its name and `entry` its options under `functions:`; `defaults` is the node of the
    defaults. `broken` names the options that were refused already, so that no check reads them;
    `broken_signatures` does so for each of `signatures:`. For one of these, `spec` is its node and
    `prefix` leads to it: there are its args, kwargs, dims and static.
    """

    name: str
    key: ScalarNode
    entry: Node
    defaults: Node | None
    model: Function
    broken: frozenset[str]
    problems: Problems
    broken_signatures: tuple[frozenset[str], ...] = ()
    spec: Node | None = None
    prefix: Steps = ()

    def each_signature(self) -> Iterator[Declaration]:
        """Yield the function with each of its signatures only."""
        if not self.model.signatures:
            yield self
            return
        listed = child(self.entry, "signatures")
        others = self.broken.difference(SIGNATURE_OPTIONS)
        for index, spec in enumerate(self.model.signatures):
            yield replace(
                self,
                model=self.model.with_signature(spec),
                broken=others | self.broken_signatures[index],
                spec=child(listed, index) if listed else None,
                prefix=("signatures", index),
            )

    def node(self, option: str) -> Node | None:
        """Return the node of an option: the function's own, else that of the defaults."""
        if self.spec is not None and option in SIGNATURE_OPTIONS:
            return child(self.spec, option)
        own = child(self.entry, option)
        if own is not None or self.defaults is None:
            return own
        return child(self.defaults, option)

    def entries(self, option: str) -> tuple[tuple[ScalarNode, Node], ...]:
        """Return the key and value nodes of an option that is a map; none if it is absent."""
        node = self.node(option)
        return node.entries if isinstance(node, MapNode) and option not in self.broken else ()

    def at(self, *steps: object) -> Mark:
        """Return where an option, or something inside it, is written."""
        node = self.node(str(steps[0])) if steps else None
        if node:
            return walk(node, steps[1:]).mark
        return self.spec.mark if self.spec else self.key.mark

    def has_own(self, option: str) -> bool:
        """Return whether the function itself sets an option."""
        return child(self.entry, option) is not None

    def add(self, mark: Mark, steps: tuple[object, ...], message: str) -> None:
        """Note a problem at a place inside this function."""
        option = str(steps[0]) if steps else ""
        is_of_signature = option in (*SIGNATURE_OPTIONS, "")
        inherited = not is_of_signature and not self.has_own(option) and self.node(option)
        origin = " (from defaults)" if inherited else ""
        prefix = self.prefix if is_of_signature else ()
        self.problems.add(mark, dotted(("functions", self.name, *prefix, *steps)), message + origin)

    def names(self) -> tuple[str, ...]:
        """Return the names under ``args:`` and ``kwargs:`` of all signatures, each once."""
        every = self.model.each_signature
        names = (name for each in every for name in (*each.positional, *each.kwargs))
        return tuple(dict.fromkeys(names))

    def positional(self) -> tuple[str, ...]:
        """Return the names under ``args:``, in order; one may be there twice."""
        return tuple(name for arg in self.model.args for name in arg)


def with_defaults(function: Function, defaults: Options) -> Function:
    """Return the function with the options it does not set taken from the defaults.

    `config`, `env` and `compiler_options` are merged key by key.
    """
    update: dict[str, Any] = {}
    for option in Options.model_fields:
        if option in MERGED:
            update[option] = {**getattr(defaults, option), **getattr(function, option)}
        elif option in defaults.model_fields_set - function.model_fields_set:
            update[option] = getattr(defaults, option)
    return function.model_copy(update=update)
