"""Make values of their constructions, as `format.constructions` describes these.

It imports what they name and calls the user's types, so a build does it, and a load never does.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import Any

from aotbuild.format.identity import NAMED
from aotbuild.format.inner_code import inner_codes
from aotbuild.format.parts import title
from aotbuild.format.values import Decoder, Decoders, import_object


def _imported(tag: str) -> Decoder:
    """Return the decoder of a tag that imports what it names first."""

    def decoder(body: Any, again: Callable[[Any], Any]) -> Any:
        name = body if tag == "name" else body[0]
        try:
            found = import_object(name)
        except (Exception, SystemExit) as err:  # importing runs the user's code
            msg = f"{name} cannot be imported: {type(err).__name__}: {err}"
            raise ValueError(msg) from err
        return found if tag == "name" else NAMED[tag](body, again)

    return decoder


def _make_function(body: Any, again: Callable[[Any], Any]) -> Any:
    owner, qualname, number, defaults, keywords, cells = body
    codes = inner_codes(owner, qualname)
    if number >= len(codes) or list(codes[number][0].co_freevars) != [cell[0] for cell in cells]:
        msg = f"{owner} does not make the same {qualname} as where it was recorded"
        raise ValueError(msg)
    code, known = codes[number]
    closure = tuple(types.CellType(*map(again, cell[1:])) for cell in cells)
    made = types.FunctionType(code, known, code.co_name, again(defaults), closure)
    made.__kwdefaults__, made.__qualname__ = again(keywords), qualname
    made.__module__ = owner.partition(":")[0]
    return made


def _make_call(body: Any, again: Callable[[Any], Any]) -> Any:
    kind, pairs = again(body[0]), {name: again(value) for name, value in body[1]}
    try:
        return kind(**pairs)
    except Exception as err:  # the user's code
        msg = f"{title(kind)}({', '.join(pairs)}) raised {type(err).__name__}: {err}"
        raise ValueError(msg) from err


def _make_object(body: Any, again: Callable[[Any], Any]) -> Any:
    made = object.__new__(again(body[0]))
    for name, value in body[1]:
        object.__setattr__(made, name, again(value))
    return made


def _make_namedtuple(body: Any, again: Callable[[Any], Any]) -> Any:
    return tuple.__new__(again(body[0]), [again(item) for item in body[1]])


def _make_partial(body: Any, again: Callable[[Any], Any]) -> Any:
    function, given, keywords = map(again, body)
    return functools.partial(function, *given, **keywords)


# What makes values where importing what they name is allowed: in a build.
DECODERS: Decoders = {
    **{tag: _imported(tag) for tag in NAMED},
    "set": lambda body, again: {"set": set, "frozenset": frozenset}[body[0]](map(again, body[1])),
    "namedtuple": _make_namedtuple,
    "partial": _make_partial,
    "method": lambda body, again: types.MethodType(*map(again, body)),
    "function": _make_function,
    "call": _make_call,
    "state": _make_object,
}
