"""Libraries: the precompiled functions of one package."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NoReturn, Self, overload
from weakref import WeakValueDictionary

from aotbuild.errors import AotbuildError, MissingJax
from aotbuild.format.index import EDITABLE
from aotbuild.runtime import fork
from aotbuild.runtime.concurrency import SingleFlight
from aotbuild.runtime.devices import shortage
from aotbuild.runtime.observers import Watch, log, watches
from aotbuild.runtime.source import Source
from aotbuild.runtime.state import LibraryState

if TYPE_CHECKING:
    from aotbuild.platforms.base import Host
    from aotbuild.runtime.devices import DeviceSet
    from aotbuild.runtime.explanation import Explanation
    from aotbuild.runtime.kernel import Kernel
    from aotbuild.runtime.preloading import Preloading
    from aotbuild.runtime.readiness import Readiness
    from aotbuild.runtime.signatures import SignatureInfo

# Kernels that a library keeps of functions that callers gave as sources: the last ones that it
# made. Decorated functions, which keep their own kernels, come to this many in few packages.
_MOST_SOURCED = 256


def _has_hash(value: object) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


class Library:
    """The precompiled functions of a package, as attributes.

    `aotbuild.load` returns it. It is safe to use from several threads.

    Examples:
        >>> library = aotbuild.load("tinyformer")
        >>> library.functions
        ('logits',)
        >>> library.logits(params, tokens)
    """

    _devices: DeviceSet | None = None

    def __init__(
        self,
        source: Source,
        *,
        fallback: str | None = None,
        package: str | None = None,
        host: Callable[[DeviceSet], Host] | None = None,
        arrays: str = "jax",
        copy: bool = False,
    ) -> None:
        """Make a library over a source; `aotbuild.load` is the public way.

        `package` is the name that was asked for, or None for a path. `host` replaces the backend's
        probe of some devices; tests pass a fake.
        """
        options = (fallback, package, host, arrays, copy)
        self._state = LibraryState(source, *options)
        self._kernels: SingleFlight[Kernel] = SingleFlight()

    def open(self) -> None:
        """Open the index now rather than at the first use.

        Raises:
            InvalidIndex: The index is damaged.
            UnsupportedFormat: Another version of aotbuild wrote the index.
            MissingJax: The package is loaded with `arrays="jax"` and jax is not installed.
        """
        header = self._state.index.header
        if EDITABLE in header:
            name = self._state.name
            what = f"{name} is an editable install without executables: calls go to the source"
            log("warning", "editable", what, package=name)
        if self._state.arrays == "jax":
            from importlib.util import find_spec

            from aotbuild.runtime.jax.clients import clients

            if find_spec("jax") is None:
                raise MissingJax(self._state.name, str(header.get("jax", "")))
            # From now on, not from the first kernel: jax's own user may start XLA's threads.
            fork.watch(clients)
        _open[id(self._state)] = self

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
        known = self._state.views_by_argument
        with suppress(KeyError, TypeError):  # a list cannot be looked up
            found: Self = known[where]
            return found
        devices = self._state.backend.devices_on(where)
        view: Self = self._state.views.get(devices, lambda: View(self, devices))
        with suppress(TypeError):
            known[where] = view
        return view

    def __reduce__(self) -> NoReturn:
        msg = f"{self!r} cannot be pickled or copied; load the package again where you need it"
        raise TypeError(msg)

    def __repr__(self) -> str:
        return f"<aotbuild.Library {self._state.name} at {self._state.source.place}>"

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self.functions})

    def __getattr__(self, name: str) -> Kernel:
        if name.startswith("__"):
            raise AttributeError(name)
        kernel = self.kernel(name)
        self.__dict__[name] = kernel
        return kernel

    def kernel(self, name: str, source: Callable[..., Any] | None = None) -> Kernel:
        """Return the kernel of a function; `library.kernel("f")` is `library.f`.

        Args:
            name: The name of a function in the manifest.
            source: The Python function that the kernel falls back to. By default it is imported
                from where the manifest says.

        Raises:
            UnknownFunction: The package has no function of that name.
            AotbuildError: The source cannot be called, or has no hash.
        """
        if source is not None and not (callable(source) and _has_hash(source)):
            msg = f"kernel({name!r}, source=…): expected a Python function, found {source!r}"
            raise AotbuildError(msg)
        key = name, source
        if source is not None and key not in self._kernels:
            # Each has a C++ cache of its own, and a new lambda of a call is not asked for again.
            self._kernels.keep_last(_MOST_SOURCED - 1, lambda key: key[1] is not None)
        return self._kernels.get(key, lambda: self._make_kernel(name, source))

    @property
    def version(self) -> str | None:
        """The version of the distribution that holds the package; None for a folder of no one."""
        return self._state.version

    @property
    def digest(self) -> str:
        """The identity of the package: `sha256:` and 64 digits.

        It covers the index, which has the digest of each blob: two packages of one digest hold the
        same executables. It is the same in a wheel, installed, and in an `_aot` folder. A companion
        has a digest of its own, which `info()` names.
        """
        return self._state.index.digest

    def info(self) -> dict[str, Any]:
        """Return what the package is, as plain data: version, digest, what built it.

        The keys are listed in the reference of the runtime.
        """
        from aotbuild.runtime.identity import info

        return info(self._state.opened)

    @cached_property
    def functions(self) -> tuple[str, ...]:
        """The names of all functions, sorted."""
        return tuple(sorted(function.name for function in self._state.index.functions()))

    @overload
    def preload(
        self,
        *names: str,
        require: bool = False,
        threads: int | None = None,
        prime: bool | Literal["once"] = False,
        wait: Literal[True] = True,
    ) -> int: ...

    @overload
    def preload(
        self,
        *names: str,
        require: bool = False,
        threads: int | None = None,
        prime: bool | Literal["once"] = False,
        wait: Literal[False],
    ) -> Preloading: ...

    def preload(
        self,
        *names: str,
        require: bool = False,
        threads: int | None = None,
        prime: bool | Literal["once"] = False,
        wait: bool = True,
    ) -> int | Preloading:
        """Load every executable that fits this host.

        Executables are loaded onto the devices that a call without committed arguments takes.

        Args:
            names: The functions to load; all of them if none is named.
            require: Raise, before anything is loaded, if a signature has no executable here.
            threads: How many threads to use; by default one for each CPU.
            prime: Run each executable once on zeros, so that a first call is as fast as later ones.
                With `"once"` they run one at a time, and the memory is given back.
            wait: If False, load in a thread and return at once.

        Returns:
            How many executables were new, or with `wait=False` a `Preloading` that returns it.

        Raises:
            UnknownFunction: The package has no function of a name in `names`.
            NoExecutable: With `require`, some signatures have no executable here; it names each.
            AotbuildError: Some executables could not be loaded or run; the others are ready. Or
                `prime` or `threads` has another value; then nothing is loaded.
        """
        from aotbuild.runtime.preload import check_options, preload_functions

        check_options(prime, threads)
        chosen = self._state.chosen(names) or self.functions
        kernels = {name: self.kernel(name) for name in chosen} if prime else None
        return preload_functions(
            *(self._state, self._devices, chosen, kernels, threads),
            required=require,
            once=prime == "once",
            wait=wait,
        )

    def ready(self, *names: str) -> Readiness:
        """Return which signatures are loaded, which are missing, and why.

        It loads nothing. After its first look it costs microseconds, so a health endpoint may ask
        it at each request, also while `preload(wait=False)` goes on.

        Args:
            names: The functions to look at; all of them if none is named.

        Returns:
            A `Readiness`. It is true if nothing is missing.

        Raises:
            UnknownFunction: The package has no function of a name in `names`.

        Examples:
            >>> print(library.ready())
            ready: 4 of 4 signatures are loaded
        """
        from aotbuild.runtime.preload import ready

        chosen = self._state.chosen(names) or self.functions
        return ready(self._state, self._devices, chosen)

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
        backend = self._state.backend
        try:
            return backend.place_tree(tree, self._devices)
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
        from aotbuild.runtime.explanation import explain

        return explain(self.kernel(name), args, kwargs)

    def signatures(self, name: str) -> tuple[SignatureInfo, ...]:
        """Return what was compiled of a function: its signatures as data, small sizes first.

        It reads the index only. Whether a signature runs here is asked when you read its `runs`.

        Raises:
            UnknownFunction: The package has no function of that name.

        Examples:
            >>> [info.dims for info in library.signatures("logits")]
            [{'batch': 1}, {'batch': 8}]
        """
        from aotbuild.runtime.signatures import library_signatures

        return library_signatures(self._state, self._devices, name)

    def sizes(self, name: str, dim: str) -> tuple[int, ...]:
        """Return the sizes of a dim that a function was compiled for, sorted.

        Raises:
            UnknownFunction: The package has no function of that name.
            AotbuildError: The function has no such dim.

        Examples:
            >>> library.sizes("logits", "batch")
            (1, 8, 32)
        """
        from aotbuild.runtime.sizes import sizes

        return sizes(self._state, name, dim)

    def bucket(self, name: str, /, **wanted: int) -> dict[str, int]:
        """Return the smallest compiled sizes that hold the sizes you have, by dim.

        With several dims, all are of one signature: the one with the smallest arguments. A call
        that `pad` pads runs at the same sizes.

        Raises:
            UnknownFunction: The package has no function of that name.
            AotbuildError: The function has no such dim, or no compiled size is large enough.

        Examples:
            >>> library.bucket("logits", batch=3)
            {'batch': 8}
        """
        from aotbuild.runtime.sizes import bucket

        return bucket(self._state, name, wanted)

    def stats(self) -> dict[str, Any]:
        """Return counters and times since the library was opened, as plain data.

        Times are in seconds. The keys are listed in the reference of the runtime.
        """
        functions = len(self.functions)
        executables = self._state.index.row_count - functions
        counters = self._state.stats.to_dict()
        return {"functions": functions, "executables": executables, **counters}

    def count_calls(self) -> None:
        """Count the calls of this library by signature from now on; `stats()["calls"]` has them.

        Each call then passes Python, which costs some microseconds and more for large trees. The
        environment variable AOTBUILD_COUNT_CALLS=1 does it for all libraries from the beginning.
        """
        self._state.counting.start()

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
        _open.pop(id(self._state), None)
        self._state.close()

    def _make_kernel(self, name: str, source: Callable[..., Any] | None) -> Kernel:
        from aotbuild.runtime.kernel import Kernel

        state, function = self._state, self._state.function(name)
        parts = (state.package, state.backend, state.loader)
        return Kernel(*parts, function, source, self._devices, owner=self)


# By the identity of their state, which views share; in the order of opening.
_open: WeakValueDictionary[int, Library] = WeakValueDictionary()


def libraries() -> tuple[Library, ...]:
    """Return the libraries that are open in this process, in the order of opening.

    A library is open until its `close`, or until nobody has it or one of its kernels any more.
    Those of decorated functions are open from their first use.

    Examples:
        >>> {library.info()["package"]: library.stats() for library in aotbuild.libraries()}
    """
    return tuple(_open.values())


def watch_kernels(watch: Watch | None) -> None:
    """Have the calls of all kernels in this process watched from now on; None ends it."""
    watches[:] = [watch] if watch else []
    for library in libraries():
        library._state.counting.watch(watch)


class View(Library):
    """A library on devices that the caller chose. It shares everything but its kernels."""

    _devices: DeviceSet

    def __init__(self, base: Library, devices: DeviceSet) -> None:
        self._base = base  # which lives as long as its views
        self._state = base._state
        self._kernels = SingleFlight()
        self._devices = devices

    def __repr__(self) -> str:
        return f"{super().__repr__()[:-1]} on {', '.join(map(str, self._devices.devices))}>"
