"""Trees: from a bound call to leaves and a signature, and back from leaves to the output tree.

A typed PRNG key is one leaf here, of dtype `key<fry>`. Executables take its uint32 data, which the
backend unwraps (`physical_shape` in `runtime.jax.private`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aotbuild.errors import (
    AotbuildError,
    InvalidArgument,
    InvalidIndex,
    SignatureMismatch,
)
from aotbuild.format.aval import NotAnArray
from aotbuild.format.record import Record
from aotbuild.format.signature import Signature
from aotbuild.format.tree import LEAF, Describer, Marker, StaticValue, Tree, TreeRefused
from aotbuild.format.values import cut
from aotbuild.runtime.binding import REMEDY, Bound, Call

if TYPE_CHECKING:
    from aotbuild.format.restore import MakeTreedef
    from aotbuild.runtime.backend import Backend, Trees

_LONGEST = 200


def flatten(bound: Bound, backend: Backend) -> Call:
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
    describer = Describer(function.ignored, function.aliases, function.references)
    try:
        tree = describer.describe(treedef)
    except TreeRefused as err:
        summary = "an argument's tree cannot be compared with the compiled ones"
        raise SignatureMismatch(function.name, summary, [str(err)], REMEDY) from err
    signature = Signature(tree, tuple(avals), bound.statics)
    return Call(bound, leaves, treedef, signature, tuple(describer.compared))


def leaf_paths(bound: Bound, trees: Trees) -> list[str]:
    """Return the path of each leaf of a bound call, as `params['w'][0]`."""
    return ["".join(steps) for steps in leaf_steps(bound, trees)]


def leaf_steps(bound: Bound, trees: Trees) -> list[tuple[str, ...]]:
    """Return the path of each leaf of a bound call in steps, as `("params", "['w']", "[0]")`."""
    paths, dynamic = trees.paths((bound.args, bound.kwargs)), bound.function.dynamic
    return [
        (str(dynamic[entry.idx] if group.idx == 0 else entry.key), *map(str, rest))
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


def not_made(record: Record, error: BaseException) -> AotbuildError:
    """Return the error of a result whose types do not take the parts that a record has for them."""
    found = cut(f"{type(error).__name__}: {error}", _LONGEST)
    msg = (
        f"{record}: calling.out_tree: the result cannot be made\n"
        f"  expected types that take their parts\n  found    {found}\n"
        "Install the packages that define its types, in the versions of the build; or reinstall "
        "the wheel."
    )
    return AotbuildError(msg)


def differences(call: Call, record: Record, trees: Trees) -> list[str]:
    """Return how a call's static data differs from that of a record's templates, in lines."""
    if not call.compared:
        return []
    from aotbuild.runtime import templates

    return templates.differences(call, record, trees)


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


def restore(tree: Tree, inputs: Any, trees: Trees, place: str = "signature.tree") -> Any:
    """Return the treedef of a description; `inputs` is the treedef of the call's (args, kwargs).

    `place` says what it describes. AotbuildError if a type in the tree cannot be imported or is not
    a pytree,
    InvalidIndex if no tree is described so.
    """
    if tree == LEAF:
        return trees.make_treedef(None, ())
    # A late import: a cold start pays for it, and many functions return one array.
    from aotbuild.format.imports import find_object
    from aotbuild.format.restore import Impossible, Maker, NotRestored
    from aotbuild.format.restore import restore as restore_tree
    from aotbuild.runtime.imports import import_named

    maker = Maker(trees.make_treedef, import_named, trees.nodes, find_object)
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
