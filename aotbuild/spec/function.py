"""Functions as the index keeps them: how a call's arguments are named and ordered."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aotbuild.frozen import dataclass
from aotbuild.spec.fields import optional, text

if TYPE_CHECKING:
    from aotbuild.spec.padding import Padding

_MISSING: Any = object()


@dataclass(frozen=True)
class Static:
    """A static parameter: its name, and its default as `values.encode` where it has one."""

    name: str
    default: Any = _MISSING

    @property
    def has_default(self) -> bool:
        """Whether a call may leave it out."""
        return self.default is not _MISSING


@dataclass(frozen=True)
class Function:
    """One function of a package.

    `positional` names the parameters a call may give by position, in the order of the user's
    function, static ones included; `dynamic` those of them that are arrays, in signature order;
    `keywords` the arrays given by name. `call` is `module:qualname` of the source. `pad` says which
    calls between the compiled sizes are padded; None for none.
    """

    name: str
    call: str
    positional: tuple[str, ...]
    dynamic: tuple[str, ...]
    keywords: tuple[str, ...]
    statics: tuple[Static, ...]
    donate: tuple[str, ...] = ()
    pad: Padding | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form; the inverse of `from_json`."""
        return {
            "name": self.name,
            "call": self.call,
            "positional": list(self.positional),
            "dynamic": list(self.dynamic),
            "keywords": list(self.keywords),
            "statics": [[s.name, s.default] if s.has_default else [s.name] for s in self.statics],
            "donate": list(self.donate),
            **({"pad": self.pad.to_json()} if self.pad else {}),
        }

    @classmethod
    def from_json(cls, data: Any) -> Function:
        """Read what `to_json` wrote; ValueError for anything else."""
        try:
            return cls(
                name=text(data["name"]),
                call=text(data["call"]),
                positional=_names(data["positional"]),
                dynamic=_names(data["dynamic"]),
                keywords=_names(data["keywords"]),
                statics=tuple(Static(text(name), *rest) for name, *rest in data["statics"]),
                donate=_names(data["donate"]),
                pad=optional(_padding, data.get("pad")),
            )
        except (KeyError, TypeError, AttributeError) as err:
            msg = f"not a function: {type(err).__name__}: {err}"
            raise ValueError(msg) from err


def _padding(data: Any) -> Padding:
    # Here, not above: most functions have none, and a cold start pays for each import.
    from aotbuild.spec.padding import Padding

    return Padding.from_json(data)


def _names(data: Any) -> tuple[str, ...]:
    """Return names of parameters; they are in one order, so none can be there twice."""
    names = tuple(map(text, data))
    if not isinstance(data, list) or len(set(names)) != len(names):
        msg = f"expected a list of different names, found {data!r}"
        raise TypeError(msg)
    return names
