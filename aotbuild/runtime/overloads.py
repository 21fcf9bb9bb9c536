"""Overloads: other entries of the manifest that serve the calls of a function.

Imported only for functions that have some. Each is a function of its own in the index, with other
arguments or static values. Which one has a call is decided on a miss of the C++ cache, which then
knows the call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from aotbuild.errors import InvalidArgument, NoExecutable
from aotbuild.format.index import Index
from aotbuild.format.signature import Function
from aotbuild.runtime.binding import Bound, bind
from aotbuild.runtime.trees import differences, flatten

if TYPE_CHECKING:
    from aotbuild.runtime.backend import Backend

T = TypeVar("T")


class Overloads(Generic[T]):
    """The overloads of one function; `make` returns what calls one of them."""

    def __init__(
        self, index: Index, backend: Backend, function: Function, make: Callable[[Function], T]
    ) -> None:
        self._index, self._backend, self._first = index, backend, function
        self._make = make

    def serving(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> T | None:
        """Return what calls the overload that has a call.

        None if the function itself has it, or none of them.
        """
        found = next(self._serving(lambda function: self._bound(function, args, kwargs)), None)
        return found[1] if found else None

    def serving_bound(self, bound: Bound) -> tuple[T, Bound] | None:
        """Return what calls the overload that has a bound call, and the call bound to it.

        None as above. Overloads with other parameters don't count.
        """
        names = _names(bound.function)

        def again(function: Function) -> Bound | None:
            return replace(bound, function=function) if _names(function) == names else None

        found = next(self._serving(again), None)
        return (found[1], replace(bound, function=found[0])) if found else None

    def named(self, name: str) -> T | None:
        """Return what calls the overload of that name, if there is one."""
        return next((made for function, made in self._others if function.name == name), None)

    def each(self) -> Iterator[T]:
        """Yield what calls each of the overloads."""
        return (made for _, made in self._others)

    @cached_property
    def _others(self) -> list[tuple[Function, T]]:
        found = overloads_of(self._index, self._first)
        return [(function, self._make(function)) for function in found]

    def _serving(
        self, bound_to: Callable[[Function], Bound | None]
    ) -> Iterator[tuple[Function, T]]:
        if not self._has(self._first, bound_to(self._first)):
            for function, made in self._others:
                if self._has(function, bound_to(function)):
                    yield function, made

    def _bound(
        self, function: Function, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Bound | None:
        try:
            bound = bind(function, args, kwargs)
        except NoExecutable:
            return None
        if not function.wrap:
            return bound
        from aotbuild.runtime.wrapped import with_markers

        return with_markers(bound, self._backend)[0]

    def _has(self, function: Function, bound: Bound | None) -> bool:
        """Return whether a function has executables for a call, or is padded to some."""
        if bound is None:
            return False
        try:
            call = flatten(bound, self._backend)
        except (NoExecutable, InvalidArgument):
            return False
        signature, trees = call.signature, self._backend.trees
        records = self._index.records(function.name, signature.key())
        if records:
            # Equal keys are not enough where static data is compared with that of a template.
            return any(not differences(call, record, trees) for record in records)
        if function.pad is None:
            return False
        from aotbuild.runtime.padding import find_plan

        return find_plan(self._index, function, signature) is not None


def overloads_of(index: Index, function: Function) -> list[Function]:
    """Return the overloads of a function that a package has, and that call the same."""
    found = filter(None, map(index.function, function.overloads))
    return [each for each in found if (each.call, each.wrap) == (function.call, function.wrap)]


def with_all_statics(index: Index, function: Function) -> Function:
    """Return a function with the static parameters of its overloads, too."""
    every = (function, *overloads_of(index, function))
    arrays = {name for each in every for name in (*each.dynamic, *each.keywords)}
    own = [static.name for static in function.statics]
    more = {s.name: s for each in every for s in each.statics if s.name not in {*arrays, *own}}
    return replace(function, statics=(*function.statics, *more.values()))


def _names(function: Function) -> tuple[Any, ...]:
    """Return what two functions must have in common for one to take a bound call of the other."""
    statics = [static.name for static in function.statics]
    return function.dynamic, sorted(function.keywords), statics
