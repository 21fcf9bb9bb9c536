"""Arguments: from what a call is given to names, static values, leaves and a signature."""

from __future__ import annotations

import enum
import json
from collections.abc import Callable, Iterator
from functools import cached_property
from types import FunctionType
from typing import TYPE_CHECKING, Any

from aotbuild.errors import InvalidArgument, SignatureMismatch
from aotbuild.frozen import dataclass
from aotbuild.spec.aval import NotAnArray
from aotbuild.spec.canonical import canonical_json
from aotbuild.spec.signature import Function, Signature
from aotbuild.spec.tree import TreeRefused, describe
from aotbuild.spec.values import NotEncodable, encode

if TYPE_CHECKING:
    from aotbuild.runtime.backends.protocol import Door

_PLAIN_STATICS = (bool, int, str, type(None), FunctionType, type)
_PLAIN_EQUALITY: tuple[Any, ...] = (object.__eq__, int.__eq__, str.__eq__)


@dataclass(frozen=True)
class Bound:
    """A call in canonical form: `args` in the order of `function.dynamic`, the rest by name.

    `statics` is sorted by name and encoded. `direct` says that the call was given its leaves in
    this order and that jit's C++ cache cannot take its static values for others.
    """

    function: Function
    statics: tuple[tuple[str, Any], ...]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    direct: bool

    @property
    def statics_key(self) -> str:
        """The static values as text: equal only if values and types are, at every depth."""
        return canonical_json(self.statics).decode()


@dataclass(frozen=True)
class Call:
    """A bound call, flattened: leaves in the order of the signature, and what names them."""

    bound: Bound
    leaves: list[Any]
    treedef: Any
    signature: Signature
    door: Door

    @cached_property
    def paths(self) -> list[str]:
        """The path of each leaf, as `params['w'][0]`."""
        return _paths(self.bound, self.door)


def has_tracers(
    function: Function, args: tuple[Any, ...], kwargs: dict[str, Any], door: Door
) -> bool:
    """Return whether an array argument is, or holds, a tracer of a JAX transformation."""
    statics = {static.name for static in function.statics}
    named = dict(_zip_positional(function, args)) | kwargs
    dynamic = [value for name, value in named.items() if name not in statics]
    try:
        leaves, _ = door.trees.flatten(dynamic)
    except ValueError:
        return False
    return any(map(door.is_tracer, leaves))


def bind(function: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Bound:
    """Bind a call; SignatureMismatch for missing, unexpected and repeated arguments."""
    _check_names(function, args, kwargs)
    given = dict(_zip_positional(function, args)) | kwargs
    names = {static.name for static in function.statics}
    order = [name for name in function.positional[: len(args)] if name not in names]
    order += sorted(name for name in kwargs if name not in names)
    return Bound(
        function,
        _bind_statics(function, given),
        tuple(given[name] for name in function.dynamic),
        {name: given[name] for name in sorted(function.keywords)},
        order == [*function.dynamic, *sorted(function.keywords)]
        and all(_is_plain_static(given[name]) for name in names if name in given),
    )


def rebind(function: Function, statics_key: str, args: tuple[Any, ...], kwargs: Any) -> Bound:
    """Return the bound call of what `Bound.statics_key`, `args` and `kwargs` were."""
    statics = tuple((name, value) for name, value in json.loads(statics_key))
    return Bound(function, statics, args, dict(kwargs), direct=True)


def flatten(bound: Bound, door: Door) -> Call:
    """Flatten a bound call and find its signature; InvalidArgument for what is no array."""
    function = bound.function
    try:
        leaves, treedef = door.trees.flatten((bound.args, bound.kwargs))
    except ValueError as err:
        expected, remedy = "pytrees", "Use dict keys of one type that can be sorted."
        raise InvalidArgument(function.name, "(all)", expected, str(err), remedy) from err
    avals = []
    for index, leaf in enumerate(leaves):
        try:
            avals.append(door.aval_of(leaf))
        except NotAnArray as err:
            raise _not_an_array(bound, door, index, str(err)) from err
    try:
        tree = describe(treedef)
    except TreeRefused as err:
        summary = "an argument's tree cannot be compared with the compiled ones"
        raise SignatureMismatch(function.name, summary, [str(err)], REMEDY) from err
    return Call(bound, leaves, treedef, Signature(tree, tuple(avals), bound.statics), door)


def path_of(function: Function, path: tuple[Any, ...]) -> str:
    """Return a key path below (args, kwargs) with the name of the parameter it begins with."""
    group, entry, *rest = path
    name = function.dynamic[entry.idx] if group.idx == 0 else entry.key
    return f"{name}{''.join(map(str, rest))}"


REMEDY = (
    "Call it with what was compiled, add this signature to the manifest and build again, or set "
    "AOTBUILD_FALLBACK=portable or =jit."
)


def _paths(bound: Bound, door: Door) -> list[str]:
    return [path_of(bound.function, path) for path in door.trees.paths((bound.args, bound.kwargs))]


def _not_an_array(bound: Bound, door: Door, index: int, found: str) -> InvalidArgument:
    return InvalidArgument(
        bound.function.name,
        _paths(bound, door)[index],
        "an array, a number or a bool",
        found,
        f"Convert it with {door.convert}, or declare the parameter static in the manifest.",
    )


def _bind_statics(function: Function, given: dict[str, Any]) -> tuple[tuple[str, Any], ...]:
    found = {}
    for static in function.statics:
        if static.name not in given:
            found[static.name] = static.default
            continue
        try:
            found[static.name] = encode(given[static.name])
        except (NotEncodable, RecursionError) as err:
            summary = f"static argument {static.name} is no value that can be compiled for"
            raise SignatureMismatch(function.name, summary, [str(err)], REMEDY) from err
    return tuple(sorted(found.items()))


def _is_plain_static(value: Any) -> bool:
    """Return whether `==` between values of this very type means equal at every depth."""
    kind = type(value)
    if kind in _PLAIN_STATICS or (kind is float and value != 0):
        return True
    return isinstance(value, enum.Enum) and kind.__eq__ in _PLAIN_EQUALITY


def _zip_positional(function: Function, args: tuple[Any, ...]) -> Iterator[tuple[str, Any]]:
    return zip(function.positional, args, strict=False)


def _check_names(function: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    problems = list(_name_problems(function, args, kwargs))
    if problems:
        names = (*function.dynamic, *function.keywords, *(s.name for s in function.statics))
        parameters = sorted(dict.fromkeys(names), key=_position(function))
        expected = f"expected {function.name}({', '.join(parameters)})"
        raise SignatureMismatch(function.name, "; ".join(problems), [expected], REMEDY)


def _position(function: Function) -> Callable[[str], int]:
    order = {name: index for index, name in enumerate(function.positional)}
    return lambda name: order.get(name, len(order))


def _name_problems(
    function: Function, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Iterator[str]:
    statics = {static.name: static for static in function.statics}
    required = dict.fromkeys([*function.dynamic, *function.keywords, *statics])
    if len(args) > len(function.positional):
        yield f"takes {len(function.positional)} positional arguments but {len(args)} were given"
    positional = function.positional[: len(args)]
    for name in required:
        may_miss = name in statics and statics[name].has_default
        if name in positional and name in kwargs:
            yield f"got multiple values for argument {name!r}"
        elif name not in positional and name not in kwargs and not may_miss:
            yield f"missing a required argument: {name!r}"
    for name in dict.fromkeys((*positional, *kwargs)):
        if name in required:
            continue
        if name in function.positional:
            yield f"argument {name!r} was left at its default when this was compiled; leave it out"
        else:
            yield f"got an unexpected keyword argument {name!r}"
