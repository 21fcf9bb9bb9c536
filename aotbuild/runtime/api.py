"""The public functions `load` and `precompiled`. Importing this loads neither jax nor numpy."""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from aotbuild.errors import AotbuildError, NoArtifacts, PackageNotFound
from aotbuild.runtime.library import Library
from aotbuild.runtime.package import check_policy, fallback_policy
from aotbuild.runtime.source import locate, package_name

if TYPE_CHECKING:
    from aotbuild.runtime.library import Kernel

F = TypeVar("F", bound=Callable[..., Any])

_ARRAYS = ("jax", "numpy")
_BUILDING = "AOTBUILD_BUILDING"
# What a jitted function has besides the call; the decorated function offers the same.
_JIT_METHODS = ("lower", "trace", "eval_shape", "clear_cache")


def load(package: str | os.PathLike[str], *, arrays: str = "jax") -> Library:
    """Return the precompiled functions of a package.

    It reads the index only. Executables are loaded when they are first called, or by
    `Library.preload`.

    Args:
        package: The name of an installed package, the path of an `_aot` folder, or a wheel. A
            package is found without importing it.
        arrays: `"jax"` for jax arrays in and out; `"numpy"` for numpy arrays without importing jax.

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
    source = locate(package, stays=True)
    library = Library(source, package=package_name(package), arrays=arrays)
    library.open()
    return library


def precompiled(ref: str, *, fallback: str | None = None) -> Callable[[F], F]:
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
        library = Library(
            lambda: locate(package, stays=True),
            package=package_name(package),
            fallback=fallback,
        )
        library._sources[name] = source
        lock = threading.RLock()
        target: Callable[..., Any] | None = None

        @functools.wraps(source)
        def call(*args: Any, **kwargs: Any) -> Any:
            nonlocal target
            if target is None:
                with lock:
                    target = target or _resolve(library, name, source, fallback)
            return target(*args, **kwargs)

        for method in _JIT_METHODS:
            if hasattr(source, method):
                setattr(call, method, getattr(source, method))
        call.__aotbuild_source__ = source  # type: ignore[attr-defined]
        call.__aotbuild_library__ = library  # type: ignore[attr-defined]
        return call  # type: ignore[return-value]

    return decorate


def _resolve(
    library: Library, name: str, source: Callable[..., Any], fallback: str | None
) -> Kernel | Callable[..., Any]:
    """Return what a decorated function calls: a kernel that falls back to it, or the function."""
    if os.environ.get(_BUILDING) == "1":
        return source
    try:
        library.open()
        return library.kernel(name)
    except (NoArtifacts, PackageNotFound) as err:
        if fallback_policy(fallback) != "jit":
            raise
        reason: AotbuildError = err
    from aotbuild.runtime.log import log

    names = {"package": str(library._package.asked), "function": name}
    what = f"{names['package']}:{name}: calling the source"
    log("warning", "source_called", what, reason, **names)
    return source
