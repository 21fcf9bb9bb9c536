"""One function as the YAML declares it, and small checks of what its parts must agree on."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from aotbuild.format.target import PORTABLE
from aotbuild.format.words import did_you_mean, quote
from aotbuild.manifest.dims import MAX_SIGNATURES, SIGNATURE_OPTIONS
from aotbuild.manifest.function import Function
from aotbuild.manifest.names import function_name_problem
from aotbuild.manifest.nodes import (
    MapNode,
    Mark,
    Node,
    Problems,
    ScalarNode,
    Steps,
    child,
    dotted,
    key_mark,
    walk,
)
from aotbuild.platforms.building import Description, Request


@dataclass(frozen=True)
class Declaration:
    """One function, for checks: its options, and the nodes they are in.

    `key` is its name and `entry` its options under `functions:`. `broken` names the options that
    were refused already, so that no check reads them; `broken_signatures` does so for each of
    `signatures:`. For one of these, `spec` is its node and
    `prefix` leads to it: there are its args, kwargs, dims and static.
    """

    name: str
    key: ScalarNode
    entry: Node
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
        """Return the node of an option."""
        of_signature = self.spec is not None and option in SIGNATURE_OPTIONS
        return child(self.spec if self.spec and of_signature else self.entry, option)

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

    def add(self, mark: Mark, steps: tuple[object, ...], message: str) -> None:
        """Note a problem at a place inside this function."""
        option = str(steps[0]) if steps else ""
        prefix = self.prefix if option in (*SIGNATURE_OPTIONS, "") else ()
        self.problems.add(mark, dotted(("functions", self.name, *prefix, *steps)), message)

    def names(self) -> tuple[str, ...]:
        """Return the names under ``args:`` and ``kwargs:`` of all signatures, each once."""
        every = self.model.each_signature
        names = (name for each in every for name in (*each.positional, *each.kwargs))
        return tuple(dict.fromkeys(names))

    def positional(self) -> tuple[str, ...]:
        """Return the names under ``args:``, in order; one may be there twice."""
        return tuple(name for arg in self.model.args for name in arg)


Found = Iterator[tuple[Mark, tuple[object, ...], str]]


def check_function(declared: Declaration, targets: tuple[Request, ...]) -> None:
    """Report everything in one function that does not fit together."""
    _check(declared, targets, _OF_FUNCTION)


def check_signature(declared: Declaration, targets: tuple[Request, ...]) -> None:
    """Report everything in one signature of a function that does not fit together."""
    _check(declared, targets, _OF_SIGNATURE)


def _check(declared: Declaration, targets: tuple[Request, ...], checks: Checks) -> None:
    for check, needs in checks:
        if not declared.broken.intersection(needs):
            for mark, steps, message in check(declared, targets):
                declared.add(mark, steps, message)


def _name(declared: Declaration, _: object) -> Found:
    problem = function_name_problem(declared.name)
    if problem:
        yield declared.key.mark, (), problem


def _repeated_names(declared: Declaration, _: object) -> Found:
    seen: set[str] = set()
    for index, name in enumerate(declared.positional()):
        if name in seen:
            yield (
                declared.at("args", index),
                ("args",),
                f"the argument {quote(name)} is listed twice",
            )
        seen.add(name)
    for name in declared.model.kwargs:
        if name in seen:
            mark = key_mark(declared.node("kwargs") or declared.entry, name)
            yield mark, ("kwargs",), f"{quote(name)} is listed under args already"


def _signatures_alone(declared: Declaration, _: object) -> Found:
    for option in SIGNATURE_OPTIONS if declared.model.signatures else ():
        if declared.node(option) is not None:
            message = "signatures: takes the place of this; move it into each of the signatures"
            yield key_mark(declared.entry, option), (option,), message


def _same_arguments(declared: Declaration, _: object) -> Found:
    """Yield arguments that one signature takes in another way than the others.

    A call does not say which of the signatures it has, so its arguments are bound before.
    """
    every = [*declared.each_signature()] if declared.model.signatures else []
    longest = max((each.positional() for each in every), key=len, default=())
    kinds: dict[object, tuple[str, str]] = {}
    for each in every:
        expected = longest[: len(each.positional())]
        if each.positional() != expected:
            message = (
                "the positional arguments of all signatures are the first ones of one list; "
                f"expected {', '.join(expected)}, found {', '.join(each.positional())}"
            )
            yield each.at("args"), (*each.prefix, "args"), message
        where = dotted(each.prefix)
        found = (("args", each.positional()), ("kwargs", each.model.kwargs))
        for option, names in (*found, ("static", each.model.static)):
            for name in names:
                known, first = kinds.setdefault(name, (option, where))
                if known != option and first != where:
                    message = f"{quote(name)} is under {known} in {first}; list it there here, too"
                    mark = key_mark(each.node(option) or each.entry, name)
                    yield mark, (*each.prefix, option), message


def _donated(declared: Declaration, _: object) -> Found:
    return _arguments_listed(declared, "donate", declared.model.donate)


def _fed_back(declared: Declaration, _: object) -> Found:
    return _arguments_listed(declared, "feedback", declared.model.feedback)


def _arguments_listed(declared: Declaration, option: str, listed: tuple[str, ...]) -> Found:
    known, seen = declared.names(), set[str]()
    for index, name in enumerate(listed):
        at = declared.at(option, index)
        if name not in known:
            yield at, (option,), _unknown_argument(declared, name)
        elif name in seen:
            yield at, (option,), f"{quote(name)} is listed twice"
        seen.add(name)


def _sharded(declared: Declaration, _: object) -> Found:
    node = declared.node("in_shardings") or declared.entry
    for name in declared.model.in_shardings:
        if name not in declared.names():
            yield key_mark(node, name), ("in_shardings",), _unknown_argument(declared, name)


def _unknown_argument(declared: Declaration, name: str) -> str:
    known = declared.names()
    hint = did_you_mean(name, known) or f"; known: {', '.join(known) or 'none'}"
    return f"{quote(name)} is neither in args nor in kwargs{hint}"


def _needs_mesh(declared: Declaration, _: object) -> Found:
    options = ("in_shardings", "out_shardings")
    given = [o for o in options if o in declared.model.model_fields_set]
    for option in () if declared.model.mesh else given:
        if option == "out_shardings" or declared.model.in_shardings:
            yield declared.at(option), (option,), "a sharding needs a mesh; add mesh: {axis: size}"


def _explicit_axes(declared: Declaration, _: object) -> Found:
    known = declared.model.mesh
    for index, name in enumerate(declared.model.explicit_axes):
        if name not in known:
            hint = did_you_mean(name, known) or f"; the mesh has {', '.join(known) or 'no axes'}"
            at = declared.at("explicit_axes", index)
            yield at, ("explicit_axes",), f"unknown mesh axis {quote(name)}{hint}"


def _mesh_fits(declared: Declaration, targets: tuple[Request, ...]) -> Found:
    size = math.prod(declared.model.mesh.values())
    native = [t for t in targets if t.platform != PORTABLE]
    most, platform = min((t.description.most_devices, t.platform) for t in targets)
    if size > most:
        message = f"a mesh of {str(size)[:20]} devices; a call for {platform} has at most {most}"
        yield declared.at("mesh"), ("mesh",), message
        return
    devices = [n for target in native for n in target.description.device_counts(target)]
    if not declared.model.mesh or not native or None in devices or size in devices:
        return
    found = ", ".join(str(count) for count in dict.fromkeys(devices))
    message = f"a mesh of {str(size)[:20]} devices, but the targets have {found}"
    remedies = {target.description.mesh_remedy(size) for target in native}
    remedy = remedies.pop() if len(remedies) == 1 else Description().mesh_remedy(size)
    yield declared.at("mesh"), ("mesh",), f"{message}; {remedy}"


def _few_enough(declared: Declaration, _: object) -> Found:
    count = sum(each.count for each in declared.model.each_signature)
    if count > MAX_SIGNATURES:
        message = f"{str(count)[:20]} signatures; at most {MAX_SIGNATURES} are built for a function"
        option = "dims" if declared.model.dims else "static"
        option = "signatures" if declared.model.signatures else option
        yield declared.at(option), (option,), f"{message}; list the rows that are called"


def _export_dims(declared: Declaration, _: object) -> Found:
    known = declared.model.dim_names
    for name in declared.model.export.dims:
        steps = ("export", "dims")
        if name not in known:
            hint = did_you_mean(name, known) or f"; known: {', '.join(known) or 'none'}"
            mark = _key_of(declared, name, *steps)
            yield mark, steps, f"unknown dim {quote(name)}{hint}"


def _export_target(declared: Declaration, targets: tuple[Request, ...]) -> Found:
    portable = any(target.platform == PORTABLE for target in targets)
    if declared.node("export") is not None and not portable:
        message = "only the portable artifact uses this; add the target portable, or remove it"
        yield declared.at("export"), ("export",), message


def _key_of(declared: Declaration, key: str, *steps: str) -> Mark:
    node = declared.node(steps[0])
    return key_mark(walk(node, steps[1:]), key) if node else declared.key.mark


Check = Callable[[Declaration, tuple[Request, ...]], Found]
_ARGUMENTS = ("args", "kwargs")
Checks = tuple[tuple[Check, tuple[str, ...]], ...]
_OF_SIGNATURE: Checks = ((_repeated_names, _ARGUMENTS),)
_OF_FUNCTION: Checks = (
    (_name, ()),
    (_signatures_alone, ("signatures",)),
    (_same_arguments, (*_ARGUMENTS, "static", "signatures")),
    (_donated, (*_ARGUMENTS, "donate")),
    (_fed_back, (*_ARGUMENTS, "feedback")),
    (_sharded, (*_ARGUMENTS, "in_shardings")),
    (_needs_mesh, ("mesh", "in_shardings", "out_shardings")),
    (_explicit_axes, ("mesh", "explicit_axes")),
    (_mesh_fits, ("mesh", "targets")),
    (_few_enough, ("dims", "static")),
    (_export_dims, ("dims", "export")),
    (_export_target, ("targets",)),
)
