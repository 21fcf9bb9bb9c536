"""Binding: from the arguments of a call to leaves and a signature, and from leaves to its result.

A typed PRNG key is one leaf here, of dtype `key<fry>`. Executables take its uint32 data, which the
backend unwraps (`physical_shape` in `runtime.jax.private`).
"""

from __future__ import annotations

import enum
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import FunctionType
from typing import TYPE_CHECKING, Any

from aotbuild.errors import AotbuildError, InvalidArgument, InvalidIndex, SignatureMismatch
from aotbuild.format.aval import NotAnArray
from aotbuild.format.canonical import canonical_json
from aotbuild.format.record import Record
from aotbuild.format.signature import Function, Signature
from aotbuild.format.tree import LEAF, Describer, Marker, Referenced, StaticValue, Tree, TreeRefused
from aotbuild.format.values import NotEncodable, cut, encode, shown
from aotbuild.runtime.compatibility import CHANGE_CALL

if TYPE_CHECKING:
    from aotbuild.format.restore import MakeTreedef
    from aotbuild.runtime.trees import Leaves, Trees

# Characters of a default value in an error.
_LONGEST = 60
_PLAIN_STATICS = (bool, int, str, type(None), FunctionType, type)
_PLAIN_EQUALITY: tuple[Any, ...] = (object.__eq__, int.__eq__, str.__eq__)


@dataclass(frozen=True)
class Bound:
    """A call in canonical form: `args` are the first of `function.dynamic`, the rest by name.

    `statics` are (name, encoded value) pairs, sorted by name. `direct` means that the caller passed
    the arrays in this order, and that jit's C++ cache cannot confuse the static values with others.
    """

    function: Function
    statics: tuple[tuple[str, Any], ...]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    direct: bool

    @property
    def statics_key(self) -> str:
        """The static values as text: equal only if values and types are equal at every depth."""
        return canonical_json(self.statics).decode()


@dataclass(frozen=True)
class Call:
    """A bound call, flattened. Leaves are in the order of the signature.

    `compared` is static data that is to be compared with that of the record's templates.
    """

    bound: Bound
    leaves: list[Any]
    treedef: Any
    signature: Signature
    compared: tuple[Referenced, ...] = ()


def bind(function: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Bound:
    """Bind a call; SignatureMismatch for missing, unexpected and repeated arguments."""
    _check_names(function, args, kwargs)
    given = _by_name(function, args, kwargs)
    names = {static.name for static in function.statics}
    order = [name for name in function.positional[: len(args)] if name not in names]
    order += sorted(name for name in kwargs if name not in names)
    # Arrays that are left out are the last of `dynamic`, so that no other one takes their place.
    dynamic = [name for name in function.dynamic if name in given]
    keywords = [name for name in sorted(function.keywords) if name in given]
    return Bound(
        function,
        _bind_statics(function, given) if function.statics else (),
        tuple(given[name] for name in dynamic),
        {name: given[name] for name in keywords},
        order == [*dynamic, *keywords]
        and all(_is_plain_static(given[name]) for name in names if name in given),
    )


def rebind(function: Function, statics_key: str, args: tuple[Any, ...], kwargs: Any) -> Bound:
    """Return the bound call with this `Bound.statics_key`, `args` and `kwargs`."""
    statics = tuple((name, value) for name, value in json.loads(statics_key))
    return Bound(function, statics, args, dict(kwargs), direct=True)


def dynamic_values(function: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
    """Return the arguments that are not static, without checking any of them."""
    statics = {static.name for static in function.statics}
    given = _by_name(function, args, kwargs)
    return [value for name, value in given.items() if name not in statics]


def _by_name(function: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    return dict(zip(function.positional, args, strict=False)) | kwargs


# --- static values ------------------------------------------------------------------------------


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
            raise SignatureMismatch(function.name, summary, [str(err)], CHANGE_CALL) from err
    return tuple(sorted(found.items()))


def _is_plain_static(value: Any) -> bool:
    """Return whether `==` between values of exactly this type compares at every depth."""
    kind = type(value)
    if kind in _PLAIN_STATICS or (kind is float and value != 0):
        return True
    return isinstance(value, enum.Enum) and kind.__eq__ in _PLAIN_EQUALITY


# --- names --------------------------------------------------------------------------------------


def _check_names(function: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    problems = list(_name_problems(function, args, kwargs))
    if problems:
        raise _name_mismatch(function, problems)


def _name_problems(
    function: Function, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Iterator[tuple[str, str]]:
    """Yield (what is wrong, with which argument)."""
    statics = {static.name: static for static in function.statics}
    required = dict.fromkeys([*function.dynamic, *function.keywords, *statics])
    if len(args) > len(function.positional):
        yield "too many", ""
    positional = function.positional[: len(args)]
    given = {*positional, *kwargs}
    last = max((i for i, name in enumerate(function.dynamic) if name in given), default=-1)
    optional = {*function.optional}.difference(function.dynamic[:last])
    for name in required:
        may_miss = name in optional or (name in statics and statics[name].has_default)
        if name in positional and name in kwargs:
            yield "twice", name
        elif name not in positional and name not in kwargs and not may_miss:
            yield "missing", name
    for name in dict.fromkeys((*positional, *kwargs)):
        if name not in required:
            yield "compiled in" if name in function.positional else "unexpected", name


def _name_mismatch(function: Function, problems: Sequence[tuple[str, str]]) -> SignatureMismatch:
    """Return the error for problems with names: (what is wrong, with which argument)."""
    from aotbuild.format.words import did_you_mean  # for errors only

    statics = {static.name: static for static in function.statics}
    known = [*function.dynamic, *function.keywords, *statics]
    texts = []
    for kind, name in problems:
        words = {
            "too many": f"takes at most {len(function.positional)} positional arguments",
            "twice": f"got multiple values for argument {name!r}",
            "missing": f"missing a required argument: {name!r}",
            "compiled in": f"argument {name!r} is compiled in at its default",
            "unexpected": f"got an unexpected keyword argument {name!r}{did_you_mean(name, known)}",
        }
        texts.append(words[kind])
    shown_names = [name for name in function.positional if name in known]
    shown_names += ["*"] * (len(shown_names) < len(known))
    shown_names += sorted({*known}.difference(function.positional))
    defaults = {
        name: f"={cut(shown(static.default), _LONGEST)}"
        for name, static in statics.items()
        if static.has_default
    }
    defaults |= dict.fromkeys(function.optional, "=…")
    expected = ", ".join(name + defaults.get(name, "") for name in shown_names)
    remedy = (
        "Call it as the second line says. What is compiled in becomes an argument under args: or "
        "static: in the manifest."
    )
    lines = [f"expected {function.name}({expected})"]
    return SignatureMismatch(function.name, "; ".join(texts), lines, remedy)


# --- leaves -------------------------------------------------------------------------------------


def flatten(bound: Bound, backend: Leaves) -> Call:
    """Flatten a bound call into leaves, a treedef and its signature.

    InvalidArgument for a leaf that is not an array, SignatureMismatch for a tree without identity.
    """
    function = bound.function
    try:
        leaves, treedef = backend.trees.flatten((bound.args, bound.kwargs))
    except ValueError as err:
        expected, remedy = "pytrees", "Use dict keys of one type that can be sorted."
        raise InvalidArgument(function.name, "(all)", expected, str(err), remedy) from err
    avals = []
    for index, leaf in enumerate(leaves):
        try:
            avals.append(backend.aval_of(leaf))
        except NotAnArray as err:
            raise InvalidArgument(
                function.name,
                leaf_paths(bound, backend.trees)[index],
                "an array, a number or a bool",
                str(err),
                backend.remedy(leaf),
            ) from err
    describer = Describer(function.ignored, function.references)
    try:
        tree = describer.describe(treedef)
    except TreeRefused as err:
        summary = "an argument's tree cannot be compared with the compiled ones"
        raise SignatureMismatch(function.name, summary, [str(err)], CHANGE_CALL) from err
    signature = Signature(tree, tuple(avals), bound.statics)
    return Call(bound, leaves, treedef, signature, tuple(describer.compared))


def leaf_paths(bound: Bound, trees: Trees) -> list[str]:
    """Return the path of each leaf of a bound call, as `params['w'][0]`."""
    paths, dynamic = trees.paths((bound.args, bound.kwargs)), bound.function.dynamic
    return [
        "".join([str(dynamic[entry.idx] if group.idx == 0 else entry.key), *map(str, rest)])
        for group, entry, *rest in paths
    ]


# --- outputs ------------------------------------------------------------------------------------


def restore_outputs(record: Record, inputs: Any, trees: Trees) -> Any:
    """Return the treedef of a record's outputs; `inputs` is the treedef of the call."""
    calling = record.calling
    if calling.out_tree == LEAF:
        return trees.make_treedef(None, ())
    place = f"{record}: calling.out_tree"
    treedef = restore(calling.out_tree, inputs, trees, place)
    count = len(calling.outputs)
    if count and treedef.num_leaves != count:
        msg = f"{record}: {count} outputs do not fit {treedef}; rebuild the wheel"
        raise AotbuildError(msg)
    return treedef


def with_static_values(treedef: Any, make_treedef: MakeTreedef) -> Any:
    """Return the treedef of outputs so that unflattening it gives static leaves their values."""
    data = treedef.node_data() if Marker.registered else None
    if data is None:
        return treedef
    if data[0] is Marker:
        return make_treedef((StaticValue, data[1]), ()) if data[1].form == "static" else treedef
    children = treedef.children()
    made = [with_static_values(child, make_treedef) for child in children]
    is_same = all(old is new for old, new in zip(children, made, strict=True))
    return treedef if is_same else make_treedef(data, made)


def restore(tree: Tree, inputs: Any, trees: Trees, place: str) -> Any:
    """Return the treedef of a description; `inputs` is the treedef of the call's (args, kwargs).

    `place` is where the description stands. AotbuildError if a type in the tree
    cannot be imported or is not a pytree, InvalidIndex if no tree is described so.
    """
    if tree == LEAF:
        return trees.make_treedef(None, ())
    # A late import: a cold start pays for it, and many functions return one array.
    from aotbuild.format.restore import Impossible, Maker, NotRestored
    from aotbuild.format.restore import restore as restore_tree
    from aotbuild.runtime.named_objects import import_named

    maker = Maker(trees.make_treedef, import_named, trees.nodes)
    try:
        return restore_tree(tree, maker, inputs)
    except Impossible as err:
        at = f"{place}{''.join(f'[{index}]' for index in err.at)}"
        raise InvalidIndex(at, err.expected, f"{err.found} ({err.node})") from err
    except NotRestored as err:
        msg = f"an output holds {err}"
        raise AotbuildError(msg) from err
    except LookupError as err:
        msg = f"an output refers to {err}; rebuild the wheel"
        raise AotbuildError(msg) from err
