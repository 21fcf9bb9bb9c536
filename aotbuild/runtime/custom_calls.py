"""Custom calls are registered here before an executable calls them: jax's, and by imports.

A record names each native function that its executable calls, and the function's provider: `xla` is
always there, the package of a `user` registers its own on import, a module under `imports:` does
where it is imported here, and `jax` registers some on `import jax`, others where a module of it is
imported, and none in a process without jax. This module is imported only for a record that has
custom calls or imports.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
import threading
from collections.abc import Iterator
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from types import ModuleType
from typing import TYPE_CHECKING

from aotbuild.errors import AotbuildError, NoExecutable
from aotbuild.format.record import Record
from aotbuild.platforms.base import host_part

if TYPE_CHECKING:
    from aotbuild.runtime.backend import ExecutableLoader

# What jaxlib binds its kernels to. It imports them by name.
_KERNELS = ("scipy.linalg.cython_blas", "scipy.linalg.cython_lapack")
_LOCK = threading.RLock()
_IMPORTS = "what its executable imports is missing here"
_INSTALL = "Install the package of these modules, in the version of the build."
_REINSTALL = "Reinstall jaxlib, scipy and the plugin of the platform, in versions that fit."
_REMEDY = f"{_REINSTALL} At the end of a process it may be too late."


def register(record: Record, loader: ExecutableLoader) -> None:
    """Import what a record names, and register what it calls of jax's.

    Raises NoExecutable for an import that fails, AotbuildError for what jax's modules lack.
    """
    _import(record, loader)
    needed = {c.target for c in record.requires.custom_calls if c.provider == "jax"}
    if not needed:
        return
    try:
        with _LOCK:
            missing = _register(record.target.platform, needed, loader)
    except Exception as err:  # importing jaxlib's and scipy's modules may raise anything
        found = f"{type(err).__name__}: {err}"
        what = f"jax's custom calls could not be initialized: {', '.join(sorted(needed))}"
        msg = f"{record}: {what}\n  found    {found}\n{_REMEDY}"
        raise AotbuildError(msg) from err
    if missing:
        what = f"no module of jax has its custom calls {', '.join(sorted(missing))}"
        msg = f"{record}: {what}\n{_REINSTALL}"
        raise AotbuildError(msg)


def _import(record: Record, loader: ExecutableLoader) -> None:
    imports = record.requires.imports
    for module in imports:
        try:
            importlib.import_module(module)
        except Exception as err:  # importing a user's module may raise anything
            found = f"imports: {module} cannot be imported: {type(err).__name__}: {err}"
            raise _not_imported(record, found) from err
    needed = {c.target for c in record.requires.custom_calls if c.provider == "imports"}
    listed = loader.custom_call_targets(record.target.platform) if needed else None
    if listed is not None and not needed <= listed:
        names = ", ".join(sorted(needed - listed))
        raise _not_imported(record, f"importing {', '.join(imports)} does not register {names}")


def _not_imported(record: Record, found: str) -> NoExecutable:
    return NoExecutable(record.function, _IMPORTS, [f"{record}: REFUSED: {found}"], _INSTALL)


def _register(platform: str, needed: set[str], loader: ExecutableLoader) -> set[str]:
    """Return those that no module has. Modules behind the last needed one are not imported."""
    part = host_part(platform)
    modules = part.kernels()
    while needed and (module := next(modules, None)) is not None:
        found = needed & module.handlers.keys()
        if found and module.initialize is not None:
            with _scipy_kernels():
                module.initialize()
        for target in sorted(found):
            if module.handlers[target] is not None:
                loader.register(target, module.handlers[target], part.xla_name or platform)
        needed = needed - found
    return needed


@contextlib.contextmanager
def _scipy_kernels() -> Iterator[None]:
    """Let Python find scipy's two modules of kernels without the other 200 of `scipy.linalg`.

    Afterwards they are gone from `sys.modules`, so that importing `scipy.linalg` is as always. If
    anything goes wrong, jaxlib's own import is the one that succeeds, or says why not.
    """
    loaded: dict[str, ModuleType] = {}
    with contextlib.suppress(Exception):
        loaded = _load_kernels()
    try:
        yield
    finally:
        for name, module in loaded.items():
            if sys.modules.get(name) is module:
                del sys.modules[name]


def _load_kernels() -> dict[str, ModuleType]:
    scipy = find_spec("scipy")
    if scipy is None or "scipy.linalg" in sys.modules:
        return {}
    folders = [os.path.join(folder, "linalg") for folder in scipy.submodule_search_locations or ()]
    loaded = {}
    for name in _KERNELS:
        spec = PathFinder.find_spec(name, folders)
        assert spec is not None
        assert spec.loader is not None
        loaded[name] = module_from_spec(spec)
        spec.loader.exec_module(loaded[name])
        sys.modules[name] = loaded[name]
    return loaded
