"""The public functions `load` and `precompiled`. Importing this loads neither jax nor numpy."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from aotbuild.errors import AotbuildError, NoArtifacts, PackageNotFound, UnknownFunction
from aotbuild.runtime.concurrency import SafeLock, SingleFlight
from aotbuild.runtime.library import Library
from aotbuild.runtime.locate import locate, package_name
from aotbuild.runtime.observers import log
from aotbuild.runtime.package import check_policy, fallback_policy
from aotbuild.runtime.state import LibraryState

if TYPE_CHECKING:
    from aotbuild.runtime.kernel import Kernel

F = TypeVar("F", bound=Callable[..., Any])

_ARRAYS = ("jax", "numpy")
_BUILDING = "AOTBUILD_BUILDING"
# What a jitted function has besides the call; the decorated function offers the same.
_JIT_METHODS = ("lower", "trace", "eval_shape", "clear_cache")


def load(
    package: str | os.PathLike[str],
    *,
    arrays: str = "jax",
    copy: bool = False,
) -> Library:
    """Return the precompiled functions of a package.

    It reads the index only. Executables are loaded when they are first called, or by
    `Library.preload`.

    Args:
        package: The name of an installed package, the path of an `_aot` folder, or a wheel. A
            package is found without importing it.
        arrays: `"jax"` for jax arrays in and out; `"numpy"` for numpy arrays without importing jax.
        copy: Whether calls copy their numpy arrays, so that you may change an array right after a
            call. Each call then passes Python, and also refuses masked arrays and other byte
            orders where the C++ cache would read them as plain arrays.

    Raises:
        PackageNotFound: There is no such package, folder or wheel.
        NoArtifacts: The package has no `_aot` folder.
        InvalidIndex: The index is damaged.
        UnsupportedFormat: Another version of aotbuild wrote the index.
        CompanionMismatch: An installed companion is from another build.
        MissingJax: `arrays="jax"`, and jax is not installed.

    Examples:
        >>> library = aotbuild.load("tinyformer")
        >>> logits = library.logits(params, tokens)
    """
    if arrays not in _ARRAYS:
        msg = f"load(arrays=…): expected one of {', '.join(_ARRAYS)}, found {arrays!r}"
        raise AotbuildError(msg)
    library = Library(
        locate(package, stays=True),
        package=package_name(package),
        arrays=arrays,
        copy=bool(copy),
    )
    library.open()
    return library


def precompiled(
    ref: str,
    *,
    fallback: str | None = None,
) -> Callable[[F], F]:
    """Decorate a jitted function so that its calls run a package's executables.

    The package is opened at the first call. `__aotbuild_library__` of the decorated function is its
    library, which opens it when you use it: `logits.__aotbuild_library__.preload()`. Inside a JAX
    transformation, such as `jax.grad` or `jax.vmap`, the decorated function itself is called.

    Args:
        ref: The package and the function in its manifest, as `"package:function"`.
        fallback: What a call without an executable does: `"none"` raises, `"portable"` compiles the
            StableHLO in the package, `"jit"` calls the decorated function. By default what the
            manifest says. The environment variable `AOTBUILD_FALLBACK` overrides it.

    Raises:
        AotbuildError: `ref` or `fallback` is malformed.

    The first call raises what `load` raises; with `fallback="jit"` a package that is not installed
    is logged and the decorated function is called.

    Examples:
        >>> @aotbuild.precompiled("tinyformer:logits", fallback="jit")
        ... @jax.jit
        ... def logits(params, tokens): ...
    """
    package, _, name = ref.partition(":") if isinstance(ref, str) else ("", "", "")
    if not package or not name.isidentifier():
        msg = f"precompiled: expected 'package:function', found {ref!r}"
        raise AotbuildError(msg)

    check_policy(fallback, "precompiled(fallback=…)")

    def decorate(source: F) -> F:
        library = DecoratedLibrary(package, name, source, fallback)
        lock = SafeLock()  # a logging or signal handler may call the decorated function
        target: Callable[..., Any] | None = None

        @functools.wraps(source)
        def call(*args: Any, **kwargs: Any) -> Any:
            nonlocal target
            called = target
            if called is None:
                with lock.held():
                    called = target = target or _resolve(library, source, look_again)
            return called(*args, **kwargs)

        def look_again() -> None:
            nonlocal target
            with lock.held():
                target = None

        for method in _JIT_METHODS:
            if hasattr(source, method):
                setattr(call, method, getattr(source, method))
        call.__aotbuild_source__ = source  # type: ignore[attr-defined]
        call.__aotbuild_library__ = library  # type: ignore[attr-defined]
        return call  # type: ignore[return-value]

    return decorate


class DecoratedLibrary(Library):
    """The library of a decorated function, which opens the package at its first use."""

    def __init__(
        self,
        package: str,
        name: str,
        source: Callable[..., Any],
        fallback: str | None,
    ) -> None:
        self._asked = package, name
        self._source = source
        self._fallback = fallback
        self._kernels = SingleFlight()
        self._opening: SingleFlight[LibraryState] = SingleFlight()

    def __getattr__(self, name: str) -> Any:
        if name != "_state":
            return super().__getattr__(name)
        self._state = state = self._opening.get(name, self._make_state)
        try:
            self.open()
        except BaseException:  # the next use tries again
            self.__dict__.pop(name, None)
            raise
        return state

    def _make_state(self) -> LibraryState:
        package, _ = self._asked
        name = package_name(package)
        options = self._fallback, name, None, "jax"
        return LibraryState(locate(package, stays=True), *options)

    def kernel(self, name: str, source: Callable[..., Any] | None = None) -> Kernel:
        """Return the kernel of a function; that of the decorated one falls back to it."""
        own = self._source if name == self._asked[1] else None
        return super().kernel(name, source or own)

    def __repr__(self) -> str:
        if "_state" in self.__dict__:
            return super().__repr__()
        return f"<aotbuild.Library {self._asked[0]}, not opened yet>"


def _resolve(
    library: DecoratedLibrary, source: Callable[..., Any], look_again: Callable[[], None]
) -> Callable[..., Any]:
    """Return what the decorated function calls until `look_again` is called."""
    if os.environ.get(_BUILDING) == "1":
        return source
    package, name = library._asked
    try:
        state = library._state
    except (NoArtifacts, PackageNotFound) as err:
        if fallback_policy(library._fallback) != "jit":
            raise
        _warn(package, name, err)
        return source
    try:
        kernel = library.kernel(name)
        if look_again not in state.counting.on_change:
            state.counting.on_change.append(look_again)
        return kernel.__call__
    except UnknownFunction as err:
        # A build that left a function out counts on the fallback.
        if not err.left_out or fallback_policy(state.policy) != "jit":
            raise
        _warn(package, name, err)
        return source


def _warn(package: str, name: str, reason: Exception) -> None:
    what = f"{package}:{name}: calling the source"
    log("warning", "source_called", what, reason, package=package, function=name)
