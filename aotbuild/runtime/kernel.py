"""Kernels: one callable over all executables of a function."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

from aotbuild.errors import AotbuildError
from aotbuild.format.record import Record
from aotbuild.format.signature import Function
from aotbuild.runtime.binding import Call, bind, dynamic_values
from aotbuild.runtime.devices import DeviceSet
from aotbuild.runtime.dispatch import Dispatch
from aotbuild.runtime.loader import Loader
from aotbuild.runtime.package import Package
from aotbuild.runtime.select import Verdict
from aotbuild.runtime.trees import flatten

if TYPE_CHECKING:
    from aotbuild.runtime.backend import Backend, Executable
    from aotbuild.runtime.call_counts import CallCounts
    from aotbuild.runtime.keeping import Kept
    from aotbuild.runtime.observers import Watch


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
        *("_counts", "_dispatch", "_keeping", "_looks", "_owner", "_parts", "_watch"),
    )

    def __init__(
        self,
        package: Package,
        backend: Backend,
        loader: Loader,
        function: Function,
        source: Callable[..., Any] | None = None,
        devices: DeviceSet | None = None,
        owner: object = None,
        keep: Kept | None = None,
    ) -> None:
        """Make the kernel of a function.

        `source` is the Python function that it falls back to; without one, the module that the
        index names is imported. `devices` are those that the caller chose with `Library.on`.
        `owner` is the library, which lives as long as one of its kernels. `keep` says which results
        stay on the device.
        """
        self.function = function
        self._owner = owner
        self._parts = (package, backend, loader, function, source, devices)
        self._counts: CallCounts | None = None
        self._watch: Watch | None = None
        # Kernels of the same function, by the results that they keep.
        self._keeping: dict[tuple[int | str, ...], Kernel] = {}
        self._looks = False
        self.__module__, _, self.__qualname__ = function.call.partition(":")
        self._dispatch = Dispatch(*self._parts, keep)
        self._compose()
        if package.on_kernel:
            package.on_kernel(self)

    def __reduce__(self) -> NoReturn:
        msg = f"{self!r} cannot be pickled or copied; load the package again where you need it"
        raise TypeError(msg)

    def __repr__(self) -> str:
        from aotbuild.runtime.described import kernel_repr

        return kernel_repr(self.function, self._dispatch.package)

    @property
    def __name__(self) -> str:
        return self.function.name

    def count_by(self, calls: CallCounts) -> None:
        """Count each call from now on, by its signature, also where results are kept."""
        self._counts = calls
        for kernel in [*self._keeping.values()]:
            kernel.count_by(calls)
        self._compose()

    def watch_by(self, watch: Watch | None) -> None:
        """Call what `watch` makes of each call from now on; None: nothing is watched any more."""
        self._watch = watch
        self._compose()

    def _compose(self) -> None:
        call, dispatch = self._dispatch.plain, self._dispatch
        if dispatch.package.copies:
            from aotbuild.runtime.argument_copies import copying

            call = copying(dispatch, call)
        if self._counts:
            call = self._counts.counted(self.function, dispatch.backend, call)
        self.__call__ = self._watch(self.function, call) if self._watch else call

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
            name, found = self.function.name, ", ".join(map(repr, odd))
            msg = (
                f"{name}: keeping(…): expected keys, fields or indices of the result, found {found}"
            )
            raise AotbuildError(msg)
        if self._dispatch.backend.keeps_results:
            return self
        if results not in self._keeping:
            from aotbuild.runtime.keeping import Kept

            made = Kernel(*self._parts, self._owner, Kept(self.function.name, results))
            if self._counts:
                made.count_by(self._counts)
            self._keeping.setdefault(results, made)  # another thread may have made it meanwhile
        return self._keeping[results]

    def judge(self, /, *args: Any, **kwargs: Any) -> tuple[Call, tuple[Verdict, ...]]:
        """Return a call, flattened, and the verdicts on the records of its signature.

        It loads and runs nothing. Raises SignatureMismatch or InvalidArgument like the call itself.
        """
        dispatch = self._dispatch
        bound = bind(dispatch.function, args, kwargs)
        if dispatch.function.wrap:
            from aotbuild.runtime.wrapped import with_markers

            bound, _ = with_markers(bound, dispatch.backend)
        call = flatten(bound, dispatch.backend)
        return call, dispatch.choice.judge(call, dispatch.pad_plan(call))

    def is_traced(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Return whether a call is inside a transformation, which calls the source."""
        values = dynamic_values(self.function, args, kwargs)
        return self._dispatch.backend.has_tracers(values)

    def padding(self, call: Call) -> str:
        """Return how a call is padded, as `batch 3 → 8`; empty if it is not padded."""
        return str(self._dispatch.pad_plan(call) or "")

    def prime(self, record: Record, executable: Executable, outputs: list[Any]) -> None:
        """Enter the usual calls of a record into the C++ cache.

        `outputs` are those of a run on zeros; nothing is run again.
        """
        self._dispatch.prime(record, executable, outputs)
        if not (self._dispatch.backend.keeps_results or self._looks):
            # The C++ cache knows all usual calls now, so that none of them would be looked at.
            self._looks = True
            plain = self.__call__
            done = lambda: setattr(self, "__call__", plain)  # noqa: E731
            self.__call__ = self._dispatch.looking_once(plain, done)

    def choose(self, call: Call, verdicts: tuple[Verdict, ...]) -> Record:
        """Return the record that would run a call.

        Raises NoExecutable if all are refused, InvalidArgument if an argument is on other devices.
        """
        verdict, _ = self._dispatch.choice.choose(call, verdicts)
        return verdict.record
