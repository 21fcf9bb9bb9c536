"""The public verbs: `load` and `precompiled`. Importing this loads neither jax nor numpy."""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from aotbuild.errors import AotbuildError, NoArtifacts, PackageNotFound
from aotbuild.runtime.library import Library
from aotbuild.runtime.locate import locate, package_name
from aotbuild.runtime.policy import check_policy, policy_of
from aotbuild.runtime.trust import Key

F = TypeVar("F", bound=Callable[..., Any])

_ARRAYS = ("jax", "numpy")
_BUILDING = "AOTBUILD_BUILDING"
# What a jitted function has beside the call; the decorated one offers the same.
_JIT_METHODS = ("lower", "trace", "eval_shape", "clear_cache")


def load(
    package: str | os.PathLike[str], *, arrays: str = "jax", trust: Sequence[Key] | None = None
) -> Library:
    """Return the precompiled functions of a package.

    `package` is the name of an installed package, the path of an `_aot` folder, or a wheel.
    With `trust` (paths of public keys, or their PEM bytes) one of these keys must have signed it;
    the variable AOTBUILD_TRUST demands the same for a whole process, and both must hold.
    Raises PackageNotFound, NoArtifacts, InvalidIndex, UnsupportedFormat, UntrustedPackage or
    MissingJax.
    """
    if arrays not in _ARRAYS:
        msg = f"load(arrays=…): expected one of {', '.join(_ARRAYS)}, found {arrays!r}"
        raise AotbuildError(msg)
    name = package_name(package)
    library = Library(locate(package), trust=trust, package=name, arrays=arrays)
    library.open()
    return library


def precompiled(
    ref: str, *, fallback: str | None = None, trust: Sequence[Key] | None = None
) -> Callable[[F], F]:
    """Decorate a jitted function so that its calls run the executables of `package:function`.

    The executables are looked for at the first call. `fallback` is `none`, `portable` or `jit`,
    and decides what happens without one; the variable AOTBUILD_FALLBACK overrides it.
    `trust` is as in `load`: a package that it refuses raises UntrustedPackage, whatever `fallback`.
    """
    package, _, name = ref.partition(":")
    if not package or not name.isidentifier():
        msg = f"precompiled: expected 'package:function', found {ref!r}"
        raise AotbuildError(msg)

    check_policy(fallback, "precompiled(fallback=…)")

    def decorate(source: F) -> F:
        lock = threading.RLock()  # a logging handler may call what is being looked for
        target: Callable[..., Any] | None = None

        @functools.wraps(source)
        def call(*args: Any, **kwargs: Any) -> Any:
            nonlocal target
            if target is None:
                with lock:
                    target = target or _resolve(package, name, source, fallback, trust)
            return target(*args, **kwargs)

        for method in _JIT_METHODS:
            if hasattr(source, method):
                setattr(call, method, getattr(source, method))
        call.__aotbuild_source__ = source  # type: ignore[attr-defined]
        return call  # type: ignore[return-value]

    return decorate


def _resolve(
    package: str,
    name: str,
    source: Callable[..., Any],
    fallback: str | None,
    trust: Sequence[Key] | None,
) -> Callable[..., Any]:
    if os.environ.get(_BUILDING) == "1":
        return source
    try:
        place = locate(package)
    except (NoArtifacts, PackageNotFound) as err:
        if policy_of(fallback) != "jit":
            raise
        from logging import getLogger

        getLogger("aotbuild").warning("%s:%s: calling the source: %s", package, name, err)
        return source
    library = Library(place, fallback=fallback, trust=trust, package=package_name(package))
    return library.kernel(name, source).__call__
