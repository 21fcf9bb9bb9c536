"""What the index says of a function for people: its docstring, its parameters, names of leaves.

No call reads it, so a function keeps it as JSON until somebody asks.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from aotbuild.format.canonical import text, whole
from aotbuild.format.tree import LEAF, Tree, children_of, type_words
from aotbuild.format.values import shown
from aotbuild.format.wrap import NNX_JIT

# A default that has no encoding is shown as `...`.
UNKNOWN = {"unknown": True}
_MISSING: Any = object()
# The names of `inspect`, in lower case.
KINDS = (
    *("positional_only", "positional_or_keyword", "var_positional"),
    *("keyword_only", "var_keyword"),
)
# The first index of paths into the result; those of the arguments begin with 0 and 1.
RESULT = 2
RESULT_NAME = "result"
UPDATES = "updates"

# The label of each child, as jax writes a step of a key path; "" if it is not known.
Labels = tuple[str, ...]
Path = tuple[int, ...]
K = TypeVar("K", str, Path)


@dataclass(frozen=True)
class Parameter:
    """A parameter of the source. `default` is encoded; `UNKNOWN` if it has no encoding."""

    name: str
    kind: str
    default: Any = _MISSING

    @property
    def has_default(self) -> bool:
        """Whether the source can be called without it."""
        return self.default is not _MISSING

    def to_json(self) -> list[Any]:
        """Return the JSON form: `[name, kind]` or `[name, kind, default]`."""
        return [self.name, self.kind, *([self.default] if self.has_default else [])]


@dataclass(frozen=True)
class About:
    """A function as its source describes it.

    `types` are the labels of the children of nodes, by the type's name. `places` are those of
    nodes whose labels differ from that, by the indices that lead to the node in
    `(args, kwargs, result)`.
    """

    doc: str = ""
    parameters: tuple[Parameter, ...] = ()
    types: Mapping[str, Labels] = field(default_factory=dict)
    places: Mapping[Path, Labels] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form without what is empty; the inverse of `from_json`."""
        types: list[list[Any]] = [[name, *labels] for name, labels in sorted(self.types.items())]
        places: list[list[Any]] = [[list(p), *labels] for p, labels in sorted(self.places.items())]
        found = {
            "doc": self.doc,
            "parameters": [parameter.to_json() for parameter in self.parameters],
            "labels": types + places,
        }
        return {key: value for key, value in found.items() if value}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> About:
        """Read what `to_json` wrote; ValueError for anything else."""
        try:
            parameters = tuple(_parameter(*item) for item in data.get("parameters", ()))
            _check_order(parameters)
            labels = [(place, _labels(rest)) for place, *rest in data.get("labels", ())]
            return cls(
                text(data.get("doc", "")),
                parameters,
                {text(place): own for place, own in labels if not isinstance(place, list)},
                {_path(place): own for place, own in labels if isinstance(place, list)},
            )
        except (TypeError, ValueError, AttributeError) as err:
            msg = f"not what a function says of itself: {type(err).__name__}: {err}"
            raise ValueError(msg) from err

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> About:
        """Read what `to_json` wrote; nothing if malformed, which `aotbuild verify` reports."""
        try:
            return cls.from_json(data)
        except ValueError:
            return cls()

    def step(self, tree: Tree, path: Path, index: int) -> str:
        """Return the step of a key path that leads to a child of the node at `path`."""
        if tree[0] in ("tuple", "list"):
            return f"[{index}]"
        if tree[0] == "dict":
            return f"[{shown(tree[1][index])}]"
        known = self.places.get(path) or self.types.get(_type(tree), ())
        return (known[index] if index < len(known) else "") or f"[<flat index {index}>]"


def join_abouts(found: Iterable[About]) -> About:
    """Return what several signatures of one function know together.

    Labels that contradict each other are dropped.
    """
    joined = About()
    for about in found:
        joined = About(
            about.doc or joined.doc,
            about.parameters or joined.parameters,
            _joined(joined.types, about.types),
            _joined(joined.places, about.places),
        )
    return joined


def _joined(known: Mapping[K, Labels], more: Mapping[K, Labels]) -> dict[K, Labels]:
    found = dict(known)
    for key, labels in more.items():
        other = found.get(key, labels)
        found[key] = agreed(other, labels) or ("",) * max(len(other), len(labels))
    return found


def agreed(one: Labels, other: Labels) -> Labels | None:
    """Return the labels that both know, where "" is unknown; None if they contradict each other."""
    pairs = list(zip(one, other, strict=False))
    if len(one) != len(other) or any(a and b and a != b for a, b in pairs):
        return None
    return tuple(a or b for a, b in pairs)


# --- names of leaves ----------------------------------------------------------------------------


def argument_names(about: About, dynamic: Sequence[str], tree: Tree) -> list[str]:
    """Return the name of each leaf of `(args, kwargs)`, as `params['layers'][0].w`."""
    args, kwargs = children_of(tree)
    keys = kwargs[1] if kwargs[0] == "dict" else ()
    named = (dynamic, children_of(args)), (keys, children_of(kwargs))
    return [
        name
        for number, group in enumerate(named)
        for index, (start, child) in enumerate(zip(*group, strict=False))
        for name in _names(about, child, (number, index), str(start))
    ]


def result_names(about: About, tree: Tree, inputs: Tree, wrap: str = "") -> list[str]:
    """Return the name of each leaf of a result; `inputs` describes `(args, kwargs)`.

    Under `nnx.jit`, the executable also returns what a call writes into the caller's objects.
    """
    whole = with_inputs(tree, inputs)
    if wrap != NNX_JIT:
        return list(_names(about, whole, (RESULT,), RESULT_NAME))
    return [
        name
        for index, child in enumerate(children_of(whole))
        for name in _names(about, child, (RESULT, index), UPDATES if index else RESULT_NAME)
    ]


def with_inputs(tree: Tree, inputs: Tree) -> Tree:
    """Return the description of a result where no node refers to the inputs."""
    if tree == LEAF or tree[0] not in ("input", "like_input"):
        children = [with_inputs(child, inputs) for child in children_of(tree)]
        return tree if tree == LEAF else [*tree[: len(tree) - len(children)], *children]
    found = inputs
    for index in tree[1]:
        found = children_of(found)[index]
    if tree[0] == "input":
        return found
    head = found[: len(found) - len(children_of(found))]
    return [*head, *(with_inputs(child, inputs) for child in children_of(tree))]


def _names(about: About, tree: Tree, path: Path, name: str) -> Iterator[str]:
    if tree == LEAF:
        yield name
        return
    for index, child in enumerate(children_of(tree)):
        step = about.step(tree, path, index)
        yield from _names(about, child, (*path, index), name + step)


def _type(tree: Tree) -> str:
    return type_words(tree[1]) if tree[0] in ("namedtuple", "node") else str(tree[0])


def find_labels(tree: Tree, leaves: Sequence[Sequence[str]], path: Path = ()) -> About:
    """Return the labels of the nodes in a tree, given the steps of the key path of each leaf."""
    finder = _Finder()
    finder.walk(tree, iter(leaves), path, 0)
    return About(types=finder.types, places=finder.places)


class _Finder:
    def __init__(self) -> None:
        self.types: dict[str, Labels] = {}
        self.places: dict[Path, Labels] = {}

    def walk(
        self, tree: Tree, leaves: Iterator[Sequence[str]], path: Path, depth: int
    ) -> Sequence[str]:
        """Add the labels below a node, and return the steps to its first leaf."""
        if tree == LEAF:
            return next(leaves, ())
        first = [
            self.walk(child, leaves, (*path, index), depth + 1)
            for index, child in enumerate(children_of(tree))
        ]
        if tree[0] not in ("tuple", "list", "dict") and any(first):
            self._add(tree, path, [steps[depth] if depth < len(steps) else "" for steps in first])
        return next(filter(None, first), ())

    def _add(self, tree: Tree, path: Path, steps: Sequence[str]) -> None:
        plain = [step == f"[<flat index {index}>]" for index, step in enumerate(steps)]
        labels = tuple("" if own else step for own, step in zip(plain, steps, strict=True))
        if not any(labels):
            return
        name = _type(tree)
        known = agreed(self.types.get(name, labels), labels)
        if known is None:
            self.places[path] = labels
        else:
            self.types[name] = known


def _labels(found: Any) -> Labels:
    return tuple(map(text, found))


def _path(found: Any) -> Path:
    return tuple(map(whole, found))


def _parameter(name: Any, kind: Any, *default: Any) -> Parameter:
    if kind not in KINDS or len(default) > 1:
        msg = f"expected the kind of a parameter, found {kind!r}"
        raise TypeError(msg)
    if not text(name).isidentifier():
        msg = f"expected the name of a parameter, found {name!r}"
        raise TypeError(msg)
    return Parameter(name, kind, *default)


def _check_order(parameters: Sequence[Parameter]) -> None:
    """Raise ValueError for parameters that no function of Python has, by names or by order."""
    default = inspect.Parameter.empty
    inspect.Signature(
        [
            inspect.Parameter(
                parameter.name,
                getattr(inspect.Parameter, parameter.kind.upper()),
                default=None if parameter.has_default else default,
            )
            for parameter in parameters
        ]
    )
