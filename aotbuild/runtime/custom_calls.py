"""Custom calls: LAPACK is initialized here, before an executable that calls it is loaded.

A record names each native function that its executable calls, and the function's provider: `xla` is
always there, `jax` and `user` register theirs on import, and `lapack` needs the call below. This
module is imported only for a record that has custom calls.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from types import ModuleType
from typing import TYPE_CHECKING

from aotbuild.errors import AotbuildError
from aotbuild.runtime.concurrency import SafeLock
from aotbuild.spec.record import Record

if TYPE_CHECKING:
    from aotbuild.runtime.backends.protocol import ExecutableLoader

# What jaxlib binds its kernels to. It imports them by name.
_KERNELS = ("scipy.linalg.cython_blas", "scipy.linalg.cython_lapack")
_LOCK = SafeLock()
_REMEDY = "They come from scipy: reinstall it. At the end of a process it may be too late."


def initialize(record: Record, loader: ExecutableLoader) -> None:
    """Initialize what a record's custom calls need.

    An executable that calls a LAPACK kernel before jaxlib has bound it to scipy's segfaults.
    """
    if any(call.provider == "lapack" for call in record.requires.custom_calls):
        try:
            with _LOCK.held(), _scipy_kernels():
                loader.initialize_lapack()
        except Exception as err:  # importing scipy's modules may raise anything
            found = f"{type(err).__name__}: {err}"
            what = "jaxlib could not initialize LAPACK's kernels"
            msg = f"{record}: {what}\n  found    {found}\n{_REMEDY}"
            raise AotbuildError(msg) from err


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
