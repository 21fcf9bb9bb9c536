"""The host as the numpy door sees it: the same facts, found without jax."""

from __future__ import annotations

import os
import sys
from typing import Any

from aotbuild.errors import AotbuildError
from aotbuild.runtime import jaxlib_private
from aotbuild.runtime.host import Host, host_of
from aotbuild.runtime.scope import Scope

_VARIABLE = "JAX_ENABLE_X64"
# As jax reads it (jax._src.config.bool_env).
_YES, _NO = ("y", "yes", "t", "true", "on", "1"), ("n", "no", "f", "false", "off", "0")


def x64() -> bool:
    """Return what jax's own setting is if jax is imported, else what JAX_ENABLE_X64 says."""
    config: Any = getattr(sys.modules.get("jax"), "config", None)
    if config is not None:
        return bool(config.jax_enable_x64)
    value = os.environ.get(_VARIABLE, "0").lower()
    if value not in _YES + _NO:
        msg = f"the environment variable {_VARIABLE}: expected 0 or 1, found {value!r}"
        raise AotbuildError(msg)
    return value in _YES


def probe(scope: Scope) -> Host:
    """Return the facts of some devices. Imports numpy and jaxlib."""
    facts: dict[str, Any] = {}
    if scope.platform == "cuda":
        from aotbuild.runtime.jaxfree import cuda

        found = cuda.versions()
        facts = {"cuda": found.runtime, "driver": found.driver, "cudnn": found.cudnn}
    return host_of(
        scope,
        arrays="numpy",
        process_count=1,
        x64=x64(),
        custom_calls=jaxlib_private.custom_call_targets(scope.platform),
        lapack=jaxlib_private.has_lapack(),
        **facts,
    )
