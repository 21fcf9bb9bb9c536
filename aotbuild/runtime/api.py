"""The public functions `load` and `precompiled`, and how a package is found.

Importing this loads neither jax nor numpy, and finding a package does not import it.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from aotbuild.errors import AotbuildError, NoArtifacts, PackageNotFound
from aotbuild.format.index import FOLDER_NAME, INDEX_NAME
from aotbuild.runtime.checked_blobs import DirectorySource
from aotbuild.runtime.library import Library

if TYPE_CHECKING:
    from aotbuild.runtime.library import Kernel
    from aotbuild.runtime.wheel_source import WheelSource

F = TypeVar("F", bound=Callable[..., Any])

_ARRAYS = ("jax", "numpy")
_BUILDING = "AOTBUILD_BUILDING"
# Characters of a name of a file; `pathlib` raises OSError for more.
_LONGEST = 255
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
        AotbuildError: `aotbuild build --in-place` built it, and its source was edited since.

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

    from aotbuild.runtime.fallback_policy import check_policy  # `load` needs none

    check_policy(fallback, "precompiled(fallback=…)")

    def decorate(source: F) -> F:
        library = Library(
            lambda: locate(package, stays=True), package=package_name(package), fallback=fallback
        )
        library._sources[name] = source
        lock = threading.RLock()
        target: Callable[..., Any] | None = None

        @functools.wraps(source)
        def call(*args: Any, **kwargs: Any) -> Any:
            nonlocal target
            if target is None:
                with lock:
                    target = target or _resolve(library, ref, source, fallback)
            return target(*args, **kwargs)

        for method in _JIT_METHODS:
            if hasattr(source, method):
                setattr(call, method, getattr(source, method))
        call.__aotbuild_source__ = source  # type: ignore[attr-defined]
        call.__aotbuild_library__ = library  # type: ignore[attr-defined]
        return call  # type: ignore[return-value]

    return decorate


def _resolve(
    library: Library, ref: str, source: Callable[..., Any], fallback: str | None
) -> Kernel | Callable[..., Any]:
    """Return what a decorated function calls: a kernel that falls back to it, or the function."""
    if os.environ.get(_BUILDING) == "1":
        return source
    package, _, name = ref.partition(":")
    try:
        library.open()
        return library.kernel(name)
    except (NoArtifacts, PackageNotFound) as err:
        from aotbuild.runtime.fallback_policy import fallback_policy

        if fallback_policy(fallback) != "jit":
            raise
        reason: AotbuildError = err
    from aotbuild.runtime.log import log

    what = f"{ref}: calling the source"
    log("warning", "source_called", what, reason, package=package, function=name)
    return source


# --- finding a package --------------------------------------------------------------------------


def locate(
    package: str | os.PathLike[str], *, stays: bool = False
) -> DirectorySource | WheelSource:
    """Return the source of a package name, an `_aot` folder (or its parent) or a wheel.

    With `stays`, the source is read after `os.chdir`, too: its path is absolute.

    Raises PackageNotFound, or NoArtifacts if there is no `_aot` folder in it.
    """
    name = package_name(package)
    source = _at_path(Path(package)) if name is None else _of_package(name)
    if stays:
        source.stay()
    return source


def package_name(package: str | os.PathLike[str]) -> str | None:
    """Return `package` if it is the name of a package, None if it is a path."""
    if not isinstance(package, (str, os.PathLike)):
        msg = (
            f"load(package)\n  expected the name of a package, or a path\n  found    {package!r}\n"
            "Pass a text, or a pathlib.Path."
        )
        raise AotbuildError(msg)
    is_path = isinstance(package, os.PathLike) or _looks_like_path(package)
    return None if is_path else str(package)


def _looks_like_path(text: str) -> bool:
    separators = {os.sep, os.altsep or os.sep, "/"}
    return text.endswith(".whl") or text.startswith(".") or any(sep in text for sep in separators)


def _at_path(path: Path) -> DirectorySource | WheelSource:
    if path.suffix == ".whl":
        from aotbuild.runtime.wheel_source import WheelSource

        return WheelSource(path)
    if not os.path.isdir(path):  # noqa: PTH112 - `is_dir` raises OSError for names that are too long
        raise PackageNotFound(str(path), [str(path)])
    for folder in (path, path / FOLDER_NAME):
        if (folder / INDEX_NAME).is_file():
            return DirectorySource(folder)
    raise NoArtifacts(str(path), [str(path), str(path / FOLDER_NAME)])


def _of_package(package: str) -> DirectorySource:
    parts = package.split(".")
    if not all(part.isidentifier() and len(part) <= _LONGEST for part in parts):
        raise PackageNotFound(package, [])
    locations = package_folders(parts)
    below_path = [Path(entry or ".").joinpath(*parts) for entry in sys.path]
    searched = list(dict.fromkeys(folder / FOLDER_NAME for folder in (*locations, *below_path)))
    for folder in searched:
        if (folder / INDEX_NAME).is_file():
            return DirectorySource(folder)
    if not locations:
        archive = next(filter(os.path.isfile, sys.path), "")
        hint = f" Nothing is loaded from within {archive}: give the path of a wheel instead."
        places = [str(folder.parent) for folder in searched]
        raise PackageNotFound(package, places, hint if archive else "")
    exists = [str(folder) for folder in searched if folder.parent.is_dir()]
    raise NoArtifacts(package, exists)


def package_folders(parts: list[str]) -> list[Path]:
    """Return the folders of a package; `find_spec` finds only the top level without importing."""
    folders = [folder.joinpath(*parts[1:]) for folder in _top_level_folders(parts[0])]
    return [folder for folder in folders if folder.exists()]


def _top_level_folders(name: str) -> Iterator[Path]:
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError, AttributeError):
        return
    for location in (spec.submodule_search_locations or ()) if spec else ():
        yield Path(location)
