"""What the parts of one function must agree on: a list of small checks."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator

from aotbuild.manifest.dims import MAX_SIGNATURES, dim_names, row_count
from aotbuild.manifest.names import function_name_problem
from aotbuild.manifest.nodes import Mark, key_mark, walk
from aotbuild.manifest.source import Source
from aotbuild.platforms.building import Description, Request
from aotbuild.spec.target import PORTABLE
from aotbuild.spec.words import did_you_mean, quote

_TOKEN = re.compile(r"\s*(?:(?P<name>[A-Za-z_]\w*)|(?P<number>[0-9]{1,18})|(?P<sign>[-+*^(),]))")
_COMPARE = re.compile(r"<=|>=|==")
_FUNCTIONS = frozenset({"floordiv", "mod", "max", "min"})
_LONGEST = 200


def expression_names(text: str) -> frozenset[str] | None:
    """Return the names in an expression, or None where it is none."""
    tokens = _tokens(text)
    if not tokens or not _alternates(tokens) or not _balanced(tokens):
        return None
    return frozenset(t for t in tokens if t.isidentifier() and t not in _FUNCTIONS)


def constraint_names(text: str) -> frozenset[str] | None:
    """Return the names in ``expression <= expression`` (or >=, ==), or None."""
    sides = [expression_names(side) for side in _COMPARE.split(text)]
    left, right = sides if len(sides) == 2 else (None, None)
    return None if left is None or right is None else left | right


def _tokens(text: str) -> list[str] | None:
    text, tokens, place = text.rstrip(), [], 0
    if len(text) > _LONGEST or not text.isascii():
        return None
    while place < len(text):
        match = _TOKEN.match(text, place)
        if match is None:
            return None
        tokens.append(match[0].strip())
        place = match.end()
    return tokens


def _alternates(tokens: list[str]) -> bool:
    """Return whether operands and operators take turns."""
    operand = False  # whether an operand has just ended
    previous = ""
    for part in tokens:
        if part == "(":
            called = previous in _FUNCTIONS
            fits, operand = not operand or called, False
        elif part == ")":
            fits = operand
        elif part[0].isalnum() or part[0] == "_":
            fits, operand = not operand, True
        else:
            fits, operand = operand or part in "+-", False
        if not fits:
            return False
        previous = part
    return operand


def _balanced(tokens: list[str]) -> bool:
    depth = 0
    for part in tokens:
        depth += {"(": 1, ")": -1}.get(part, 0)
        if depth < 0:
            return False
    return depth == 0


Found = Iterator[tuple[Mark, tuple[object, ...], str]]


def check_function(source: Source, targets: tuple[Request, ...]) -> None:
    """Report everything in one function that does not fit together."""
    for check, needs in _CHECKS:
        if not source.broken.intersection(needs):
            for mark, steps, message in check(source, targets):
                source.add(mark, steps, message)


def _name(source: Source, _: object) -> Found:
    problem = function_name_problem(source.name)
    if problem:
        yield source.key.mark, (), problem


def _repeated_names(source: Source, _: object) -> Found:
    seen: set[str] = set()
    for index, name in enumerate(source.positional()):
        if name in seen:
            yield source.at("args", index), ("args",), f"the argument {quote(name)} is listed twice"
        seen.add(name)
    for name in source.model.kwargs:
        if name in seen:
            mark = key_mark(source.node("kwargs") or source.entry, name)
            yield mark, ("kwargs",), f"{quote(name)} is listed under args already"


def _donated(source: Source, _: object) -> Found:
    for index, name in enumerate(source.model.donate):
        at = source.at("donate", index)
        if name not in source.names():
            yield at, ("donate",), _unknown_argument(source, name)
        elif name in source.model.donate[:index]:
            yield at, ("donate",), f"{quote(name)} is listed twice"


def _sharded(source: Source, _: object) -> Found:
    node = source.node("in_shardings") or source.entry
    for name in source.model.in_shardings:
        if name not in source.names():
            yield key_mark(node, name), ("in_shardings",), _unknown_argument(source, name)


def _unknown_argument(source: Source, name: str) -> str:
    known = source.names()
    hint = did_you_mean(name, known) or f"; known: {', '.join(known) or 'none'}"
    return f"{quote(name)} is neither in args nor in kwargs{hint}"


def _needs_mesh(source: Source, _: object) -> Found:
    options = ("in_shardings", "out_shardings")
    given = [o for o in options if o in source.model.model_fields_set]
    for option in () if source.model.mesh else given:
        if option == "out_shardings" or source.model.in_shardings:
            yield source.at(option), (option,), "a sharding needs a mesh; add mesh: {axis: size}"


def _mesh_fits(source: Source, targets: tuple[Request, ...]) -> Found:
    size = math.prod(source.model.mesh.values())
    native = [t for t in targets if t.platform != PORTABLE]
    devices = [n for target in native for n in target.description.device_counts(target)]
    if not source.model.mesh or not native or None in devices or size in devices:
        return
    found = ", ".join(str(count) for count in dict.fromkeys(devices))
    message = f"a mesh of {str(size)[:20]} devices, but the targets have {found}"
    remedies = {target.description.mesh_remedy(size) for target in native}
    remedy = remedies.pop() if len(remedies) == 1 else Description().mesh_remedy(size)
    yield source.at("mesh"), ("mesh",), f"{message}; {remedy}"


def _few_enough(source: Source, _: object) -> Found:
    values = (v for v in source.model.static.values())
    statics = math.prod(len(v) if isinstance(v, tuple) else 1 for v in values)
    count = row_count(source) * statics if source.model.dims else statics
    if count > MAX_SIGNATURES:
        message = f"{str(count)[:20]} signatures; at most {MAX_SIGNATURES} are built for a function"
        option = "dims" if source.model.dims else "static"
        yield source.at(option), (option,), f"{message}; list the rows that are called"


def _export_dims(source: Source, _: object) -> Found:
    known = dim_names(source)
    for name, text in source.model.export.dims.items():
        steps = ("export", "dims")
        if name not in known:
            hint = did_you_mean(name, known) or f"; known: {', '.join(known) or 'none'}"
            mark = _key_of(source, name, *steps)
            yield mark, steps, f"unknown dim {quote(name)}{hint}"
        if expression_names(text) is None:
            message = f"expected an expression such as 'b' or '2*s', found {quote(text)}"
            yield source.at(*steps, name), (*steps, name), message


def _export_constraints(source: Source, _: object) -> Found:
    export = source.model.export
    known = _union(expression_names(text) or () for text in export.dims.values())
    for index, text in enumerate(export.constraints):
        steps = ("export", "constraints")
        found = constraint_names(text)
        at = source.at(*steps, index)
        if found is None:
            yield at, steps, f"expected a constraint such as 'b <= 64', found {quote(text)}"
        for name in sorted((found or frozenset()) - known):
            hint = did_you_mean(name, known) or "; give it to a dim under export.dims"
            yield at, steps, f"unknown symbol {quote(name)}{hint}"


def _export_target(source: Source, targets: tuple[Request, ...]) -> Found:
    if source.has_own("export") and all(target.platform != PORTABLE for target in targets):
        yield source.at("export"), ("export",), NO_PORTABLE


def _key_of(source: Source, key: str, *steps: str) -> Mark:
    node = source.node(steps[0])
    return key_mark(walk(node, steps[1:]), key) if node else source.key.mark


def _union(sets: Iterable[Iterable[str]]) -> frozenset[str]:
    return frozenset(name for names in sets for name in names)


NO_PORTABLE = "only the portable artifact uses this; add the target portable, or remove it"

Check = Callable[[Source, tuple[Request, ...]], Found]
_ARGUMENTS = ("args", "kwargs")
_CHECKS: tuple[tuple[Check, tuple[str, ...]], ...] = (
    (_name, ()),
    (_repeated_names, _ARGUMENTS),
    (_donated, (*_ARGUMENTS, "donate")),
    (_sharded, (*_ARGUMENTS, "in_shardings")),
    (_needs_mesh, ("mesh", "in_shardings", "out_shardings")),
    (_mesh_fits, ("mesh", "targets")),
    (_few_enough, ("dims", "static")),
    (_export_dims, ("dims", "export")),
    (_export_constraints, ("export",)),
    (_export_target, ("targets",)),
)
