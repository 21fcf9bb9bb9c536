"""Libraries, the precompiled functions of one package, and kernels, one callable for each."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn, Self
from weakref import WeakValueDictionary

from aotbuild.errors import AotbuildError
from aotbuild.format.record import Record
from aotbuild.format.signature import Function
from aotbuild.runtime.concurrency import SingleFlight
from aotbuild.runtime.devices import DeviceSet, shortage
from aotbuild.runtime.dispatch import Dispatch
from aotbuild.runtime.package import Package

if TYPE_CHECKING:
    from aotbuild.platforms.base import Host
    from aotbuild.runtime.checked_blobs import Source
    from aotbuild.runtime.explanation import Explanation


class Library:
    """The precompiled functions of a package, as attributes.

    `aotbuild.load` returns it. It is safe to use from several threads.

    Examples:
        >>> library = aotbuild.load("tinyformer")
        >>> library.functions
        ('logits',)
        >>> library.logits(params, tokens)
    """

    def __init__(
        self,
        source: Source | Callable[[], Source],
        *,
        fallback: str | None = None,
        package: str | None = None,
        host: Callable[[DeviceSet], Host] | None = None,
        arrays: str = "jax",
    ) -> None:
        """Make a library over a source, or what finds it; `aotbuild.load` is the public way.

        `package` is the name that was asked for, or None for a path. `host` replaces the backend's
        probe of some devices; tests pass a fake.
        """
        find = source if callable(source) else lambda: source
        self._package = Package(find, asked=package, fallback=fallback, arrays=arrays, probe=host)
        self._devices: DeviceSet | None = None
        self._base: Library | None = None
        self._kernels: SingleFlight[Kernel] = SingleFlight()
        self._views: SingleFlight[Self] = SingleFlight()
        # Python functions that kernels fall back to, by name; others are imported.
        self._sources: dict[str, Callable[..., Any]] = {}
        _made[id(self._package)] = self

    def open(self) -> None:
        """Open the index now rather than at the first use.

        Raises:
            InvalidIndex: The index is damaged.
            UnsupportedFormat: Another version of aotbuild wrote the index.
            AotbuildError: The package is an editable install, loaded with `arrays="numpy"`.
            MissingJax: The package is loaded with `arrays="jax"` and jax is not installed.
        """
        self._package.index  # noqa: B018 - reading it opens the package

    def on(self, where: Any) -> Self:
        """Return this library on chosen devices.

        A call without committed arguments runs on these devices, and its results are committed to
        them. A call that needs fewer devices takes the first ones. Everything that is loaded is
        shared, and the same devices give the same library.

        Args:
            where: A `jax.Device`, a sequence of them, a `jax.sharding.Mesh` or a
                `jax.sharding.Sharding`. With `arrays="numpy"`, a name such as `"cpu"` or
                `"cuda:1"`.

        Raises:
            AotbuildError: `where` is none of this, or names no device of this process.

        A call with arguments that are committed to other devices raises InvalidArgument.
        """
        devices = self._package.backend.devices_on(where)
        return self._views.get(devices, lambda: self._view(devices))

    def _view(self, devices: DeviceSet) -> Self:
        view: Self = object.__new__(type(self))
        view._package = self._package
        view._base = self  # which lives as long as its views
        view._devices = devices
        view._kernels = SingleFlight()
        view._views, view._sources = self._views, self._sources
        return view

    def __reduce__(self) -> NoReturn:
        msg = f"{self!r} cannot be pickled or copied; load the package again where you need it"
        raise TypeError(msg)

    def __repr__(self) -> str:
        if not self._package.is_open:
            return f"<aotbuild.Library {self._package.asked or 'of a path'}, not opened yet>"
        devices = self._devices.devices if self._devices else ()
        where = f" on {', '.join(map(str, devices))}" if devices else ""
        return f"<aotbuild.Library {self._package.name} at {self._package.source.path}{where}>"

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self.functions})

    def __getattr__(self, name: str) -> Kernel:
        if name.startswith("__"):
            raise AttributeError(name)
        kernel = self.kernel(name)
        self.__dict__[name] = kernel
        return kernel

    def kernel(self, name: str) -> Kernel:
        """Return the kernel of a function; `library.kernel("f")` is `library.f`.

        Raises:
            UnknownFunction: The package has no function of that name.
        """
        return self._kernels.get(name, lambda: self._make_kernel(name))

    def _make_kernel(self, name: str) -> Kernel:
        function, source = self._package.function(name), self._sources.get(name)
        return Kernel(self._package, function, source, self._devices, owner=self)

    @cached_property
    def functions(self) -> tuple[str, ...]:
        """The names of all functions, sorted."""
        return tuple(sorted(function.name for function in self._package.index.functions()))

    def preload(self, *names: str, require: bool = False) -> int:
        """Load every executable that fits this host, and return how many were new.

        Executables are loaded onto the devices that a call without committed arguments takes, by
        one thread for each CPU.

        Args:
            names: The functions to load; all of them if none is named.
            require: Raise, before anything is loaded, if a signature has no executable here.

        Raises:
            UnknownFunction: The package has no function of a name in `names`.
            NoExecutable: With `require`, some signatures have no executable here; it names each.
            AotbuildError: Some executables could not be loaded; the others are ready.
        """
        from aotbuild.runtime.preload import preload

        chosen = [self._package.function(name).name for name in names] or self.functions
        return preload(self._package, self._devices, chosen, required=require)

    def place(self, tree: Any) -> Any:
        """Return a tree whose arrays calls of this library take without a copy.

        Put there once what you pass to many calls, such as weights. With numpy arrays on a CPU, the
        arrays begin at multiples of 64 bytes, and those that do so already are returned as they
        are; on a GPU they are on the device. With jax arrays this is `jax.device_put`, onto the
        device of `on` or uncommitted.

        Args:
            tree: A tree of arrays and numbers, as a call takes it.

        Raises:
            AotbuildError: A leaf is no array, or the library is on several devices.

        Examples:
            >>> params = library.place(params)
        """
        backend = self._package.backend
        try:
            return backend.put_tree(tree, self._devices)
        except AotbuildError:
            raise
        except Exception as err:  # jaxlib raises RuntimeError, ValueError and its own
            devices = self._devices or backend.default_devices()
            found = shortage("place(…)", devices.first, err)
            if found is None:
                raise
            raise found from err

    def explain(self, name: str, /, *args: Any, **kwargs: Any) -> Explanation:
        """Explain what the call `library.<name>(*args, **kwargs)` would do.

        It loads and runs nothing. What the call would raise for lack of an executable is returned
        as `Explanation.error`.

        Raises:
            UnknownFunction: The package has no function of that name.

        Examples:
            >>> print(library.explain("logits", params, tokens))
        """
        return self.kernel(name).explain(args, kwargs)

    def stats(self) -> dict[str, Any]:
        """Return counters and times since the library was opened, as plain data.

        Times are in seconds. `misses` are the first call of each form (a signature, how it is
        passed, and the kinds of its arrays) and every call that no executable serves. The keys are
        listed in the reference of the runtime.
        """
        functions = len(self.functions)
        executables = self._package.index.row_count - functions
        counters = self._package.stats.to_dict()
        return {"functions": functions, "executables": executables, **counters}

    def close(self) -> None:
        """Drop what was loaded and close the source; kernels in use keep their executables.

        Later calls read the executables of an installed package or a folder again. Those of a wheel
        raise AotbuildError, because its file is closed: load it again.
        """
        # A copy: another thread may make a kernel meanwhile.
        for name in [*self.__dict__]:
            if not name.startswith("_") and name != "functions":
                self.__dict__.pop(name, None)
        self._kernels.clear()
        self._views.clear()
        _made.pop(id(self._package), None)
        self._package.close()


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
        *("_dispatch", "_keeping", "_parts"),
    )

    def __init__(
        self,
        package: Package,
        function: Function,
        source: Callable[..., Any] | None = None,
        devices: DeviceSet | None = None,
        owner: object = None,
        staying: tuple[int | str, ...] | None = None,
    ) -> None:
        """Make the kernel of a function.

        `source` is the Python function that it falls back to; without one, the module that the
        index names is imported. `devices` are those that the caller chose with `Library.on`.
        `owner` is the library, which lives as long as one of its kernels. `staying` names the
        results that stay on the device.
        """
        self.function = function
        self._parts = (package, function, source, devices, owner)
        # Kernels of the same function, by the results that stay on the device.
        self._keeping: dict[tuple[int | str, ...], Kernel] = {}
        self.__module__, _, self.__qualname__ = function.call.partition(":")
        results = None
        if staying is not None:
            from aotbuild.runtime.numpy.placing import StayingResults

            results = StayingResults(function.name, staying)
        self._dispatch = Dispatch(package, function, source, devices, results)
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


# By the identity of their package, which views share; in the order of making.
_made: WeakValueDictionary[int, Library] = WeakValueDictionary()


def libraries() -> tuple[Library, ...]:
    """Return the libraries that are open in this process, in the order of making.

    A library is open until its `close`, or until nobody has it or one of its kernels any more.
    Those of decorated functions are open from their first use.
    """
    return tuple(library for library in _made.values() if library._package.is_open)
