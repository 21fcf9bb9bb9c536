"""Kernels: one callable over all executables of a function."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

from aotbuild.errors import AotbuildError
from aotbuild.format.record import Record
from aotbuild.format.signature import Function
from aotbuild.runtime.devices import DeviceSet
from aotbuild.runtime.dispatch import Dispatch
from aotbuild.runtime.package import Package

if TYPE_CHECKING:
    from aotbuild.runtime.explanation import Explanation


class Kernel:
    """A precompiled function. Call it like the original, with arrays and static values.

    `kernel(*args, **kwargs)` returns what the function returns. Its dispatch is a C++ function in
    the slot `__call__`, so Python adds nothing to a call that the cache knows.

    Attributes:
        function: The function's name, parameters and static arguments, as its index has them.
    """

    # A `__dict__` for `__module__` and `__qualname__`, which the class has for itself.
    __slots__ = (
        *("__call__", "__dict__", "__weakref__", "function"),
        *("_dispatch", "_keeping", "_owner", "_parts"),
    )

    def __init__(
        self,
        package: Package,
        function: Function,
        source: Callable[..., Any] | None = None,
        devices: DeviceSet | None = None,
        owner: object = None,
        keep: tuple[int | str, ...] | None = None,
    ) -> None:
        """Make the kernel of a function.

        `source` is the Python function that it falls back to; without one, the module that the
        index names is imported. `devices` are those that the caller chose with `Library.on`.
        `owner` is the library, which lives as long as one of its kernels. `keep` names the results
        that stay on the device.
        """
        self.function = function
        self._owner = owner
        self._parts = (package, function, source, devices, owner)
        # Kernels of the same function, by the results that they keep.
        self._keeping: dict[tuple[int | str, ...], Kernel] = {}
        self.__module__, _, self.__qualname__ = function.call.partition(":")
        kept = None
        if keep is not None:
            from aotbuild.runtime.keeping import Kept

            kept = Kept(function.name, keep)
        self._dispatch = Dispatch(package, function, source, devices, kept)
        self.__call__ = self._dispatch.plain

    def __reduce__(self) -> NoReturn:
        msg = f"{self!r} cannot be pickled or copied; load the package again where you need it"
        raise TypeError(msg)

    def __repr__(self) -> str:
        return f"<aotbuild.Kernel {self._dispatch.package.name}:{self.function.name}>"

    @property
    def __name__(self) -> str:
        return self.function.name

    @property
    def records(self) -> tuple[Record, ...]:
        """The records of all executables of this function; reads each from the index."""
        return tuple(self._dispatch.package.index.records(self.function.name))

    def keeping(self, *results: int | str) -> Kernel:
        """Return this function with results that stay on the device for the next call.

        With numpy arrays, such a result is a `DeviceArray`. Pass it to a call, which takes it
        without a copy and reuses its memory if the argument is donated; `numpy.asarray` reads it.
        With jax arrays this is the function itself, because all results stay on the device. The
        same results give the same object.

        Args:
            results: Keys, fields or indices of the result; all of it if none is given.

        The first call raises AotbuildError if the result has no such part.

        Examples:
            >>> decode = library.decode.keeping("cache")
            >>> for token in tokens:
            ...     logits, cache = decode(params, token, cache)
        """
        odd = [each for each in results if not isinstance(each, (int, str))]
        if odd:
            found = ", ".join(map(repr, odd))
            msg = (
                f"{self.function.name}: keeping(…): expected keys, fields or indices of the "
                f"result, found {found}"
            )
            raise AotbuildError(msg)
        if self._dispatch.package.backend.keeps_results:
            return self
        if results not in self._keeping:
            # Another thread may have made it meanwhile.
            self._keeping.setdefault(results, Kernel(*self._parts, results))
        return self._keeping[results]

    def explain(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Explanation:
        """Explain what a call would do; load and run nothing."""
        from aotbuild.runtime.explanation import explain

        return explain(self._dispatch, args, kwargs)
