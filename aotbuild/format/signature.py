"""Functions and signatures: parameters in order; avals, tree and static values of a call."""

from __future__ import annotations

from dataclasses import dataclass
from keyword import iskeyword
from typing import TYPE_CHECKING, Any

from aotbuild.format.aval import Aval
from aotbuild.format.canonical import canonical_digest, lists, optional, text, whole
from aotbuild.format.tree import Ignored, Referenced, Tree
from aotbuild.format.values import cut, shown

if TYPE_CHECKING:
    from aotbuild.format.padding import Padding

KEY_DIGITS = 32


# The public names of `aotbuild.runtime.library.Library`, which a function's would hide; a test
# compares.
LIBRARY_NAMES = frozenset(
    ("close", "explain", "functions", "kernel", "on", "open", "place", "preload", "stats")
)


@dataclass(frozen=True)
class Signature:
    """Avals of all leaves, the tree around them, and the values of the static arguments.

    `tree` describes `(args, kwargs)` without the static arguments; `leaves` are in its order.
    `statics` holds (parameter name, encoded value) sorted by name; see `format.values`.
    """

    tree: Tree
    leaves: tuple[Aval, ...]
    statics: tuple[tuple[str, Any], ...] = ()

    def key(self) -> str:
        """Return the identity of this signature: 32 hexadecimal digits."""
        return canonical_digest(self.to_json())[:KEY_DIGITS]

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form; the inverse of `from_json`."""
        return {
            "tree": self.tree,
            "leaves": [str(aval) for aval in self.leaves],
            "statics": [list(item) for item in self.statics],
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Signature:
        """Read what `to_json` wrote."""
        statics = tuple((name, value) for name, value in data["statics"])
        return cls(data["tree"], tuple(map(Aval.parse, data["leaves"])), statics)

    def describe_statics(self) -> str:
        """Return the static arguments as text, such as `causal=True, k=3`."""
        return ", ".join(f"{name}={shown(value)}" for name, value in self.statics)


_MISSING: Any = object()
# Characters of a name that a problem quotes.
_LONGEST = 60


@dataclass(frozen=True)
class Static:
    """A static parameter: its name and, if it has one, its encoded default."""

    name: str
    default: Any = _MISSING

    @property
    def has_default(self) -> bool:
        """Whether a call may omit it."""
        return self.default is not _MISSING


@dataclass(frozen=True)
class Function:
    """One function of a package.

    `positional` names the positional parameters in the order of the user's function, static ones
    included; `dynamic` those of them that are arrays, in signature order; `keywords` the arrays
    that are passed by name. `call` is `module:qualname` of the source. `pad` describes padded
    calls; None if there are none. `wrap` names the jit whose meaning a call has, if it is not
    `jax.jit`; see `format.wrap`. `ignored` is static data of arguments that is not compared.
    `references` is static data that a call compares with that of a template; see
    `format.references`. `optional` are the arrays that some signatures lack: the last ones of
    `dynamic`, and any of `keywords`.
    """

    name: str
    call: str
    positional: tuple[str, ...]
    dynamic: tuple[str, ...]
    keywords: tuple[str, ...]
    statics: tuple[Static, ...]
    donate: tuple[str, ...] = ()
    pad: Padding | None = None
    wrap: str = ""
    ignored: tuple[Ignored, ...] = ()
    references: tuple[Referenced, ...] = ()
    optional: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form; the inverse of `from_json`."""
        statics = [[s.name, s.default] if s.has_default else [s.name] for s in self.statics]
        data = {**vars(self), "statics": statics, "pad": self.pad and self.pad.to_json()}
        rare = ("pad", "wrap", "ignored", "references", "optional")
        return {name: lists(value) for name, value in data.items() if name not in rare or value}

    @classmethod
    def from_json(cls, data: Any) -> Function:
        """Read what `to_json` wrote; ValueError for anything else."""
        try:
            found = cls(
                name=text(data["name"]),
                call=text(data["call"]),
                positional=_names(data["positional"]),
                dynamic=_names(data["dynamic"]),
                keywords=_names(data["keywords"]),
                statics=tuple(Static(text(name), *rest) for name, *rest in data["statics"]),
                donate=_names(data["donate"]),
                pad=optional(_padding, data.get("pad")),
                wrap=text(data.get("wrap", "")),
                ignored=tuple(map(_ignored, data.get("ignored", ()))),
                references=tuple(map(_referenced, data.get("references", ()))),
                optional=_names(data.get("optional", [])),
            )
        except (KeyError, TypeError, AttributeError) as err:
            msg = f"not a function: {type(err).__name__}: {err}"
            raise ValueError(msg) from err
        reason = _problem(found)
        if reason:
            msg = f"{found.name}: {reason}"
            raise ValueError(msg)
        return found


def _problem(function: Function) -> str | None:
    """Return what contradicts itself in a function."""
    arrays, statics = (*function.dynamic, *function.keywords), [s.name for s in function.statics]
    names = {*arrays, *statics}
    for name in (*function.positional, *function.keywords, *statics):
        if not name.isidentifier() or iskeyword(name):
            return f"expected the name of a parameter, found {cut(repr(name), _LONGEST)}"
    if len(names) != len(arrays) + len(statics):
        return f"{[*arrays, *statics]} have a name twice"
    if not {*function.positional}.issuperset(function.dynamic):
        return f"dynamic: {list(function.dynamic)} are not all among {list(function.positional)}"
    if not {*arrays}.issuperset(function.donate):
        return f"donate: {list(function.donate)} are not all among {list(arrays)}"
    first = tuple(name for name in function.dynamic if name not in function.optional)
    if not {*arrays}.issuperset(function.optional):
        return f"optional: {list(function.optional)} are not all among {list(arrays)}"
    if function.dynamic[: len(first)] != first:
        return f"optional: {list(function.optional)} are not the last of {list(function.dynamic)}"
    return None


def _padding(data: Any) -> Padding:
    # A late import: most functions have no padding, and a cold start pays for each import.
    from aotbuild.format.padding import Padding

    return Padding.from_json(data)


def _ignored(data: Any) -> Ignored:
    place, path, index = data
    return text(place), tuple(map(whole, path)), optional(whole, index)


def _referenced(data: Any) -> Referenced:
    *place, like = data
    return (*_ignored(place), text(like))


def _names(data: Any) -> tuple[str, ...]:
    """Return parameter names, without duplicates."""
    names = tuple(map(text, data))
    if not isinstance(data, list) or len(set(names)) != len(names):
        msg = f"expected a list of different names, found {data!r}"
        raise TypeError(msg)
    return names
