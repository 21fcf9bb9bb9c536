"""What the parts of one function must agree on: a list of small checks."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator

from aotbuild.format.target import PORTABLE
from aotbuild.format.words import did_you_mean, quote
from aotbuild.manifest.declaration import Declaration
from aotbuild.manifest.function import SIGNATURE_OPTIONS
from aotbuild.manifest.names import function_name_problem
from aotbuild.manifest.nodes import Mark, dotted, key_mark, walk
from aotbuild.manifest.signatures import MAX_SIGNATURES
from aotbuild.platforms.building import Description, Request

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
        if declared.has_own(option):
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
    for name, text in declared.model.export.dims.items():
        steps = ("export", "dims")
        if name not in known:
            hint = did_you_mean(name, known) or f"; known: {', '.join(known) or 'none'}"
            mark = _key_of(declared, name, *steps)
            yield mark, steps, f"unknown dim {quote(name)}{hint}"
        if expression_names(text) is None:
            message = f"expected an expression such as 'b' or '2*s', found {quote(text)}"
            yield declared.at(*steps, name), (*steps, name), message


def _export_constraints(declared: Declaration, _: object) -> Found:
    export = declared.model.export
    known = _union(expression_names(text) or () for text in export.dims.values())
    for index, text in enumerate(export.constraints):
        steps = ("export", "constraints")
        found = constraint_names(text)
        at = declared.at(*steps, index)
        if found is None:
            yield at, steps, f"expected a constraint such as 'b <= 64', found {quote(text)}"
        for name in sorted((found or frozenset()) - known):
            hint = did_you_mean(name, known) or "; give it to a dim under export.dims"
            yield at, steps, f"unknown symbol {quote(name)}{hint}"


def _export_target(declared: Declaration, targets: tuple[Request, ...]) -> Found:
    if declared.has_own("export") and all(target.platform != PORTABLE for target in targets):
        yield declared.at("export"), ("export",), NO_PORTABLE


def _key_of(declared: Declaration, key: str, *steps: str) -> Mark:
    node = declared.node(steps[0])
    return key_mark(walk(node, steps[1:]), key) if node else declared.key.mark


def _union(sets: Iterable[Iterable[str]]) -> frozenset[str]:
    return frozenset(name for names in sets for name in names)


NO_PORTABLE = "only the portable artifact uses this; add the target portable, or remove it"

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
    (_export_constraints, ("export",)),
    (_export_target, ("targets",)),
)
