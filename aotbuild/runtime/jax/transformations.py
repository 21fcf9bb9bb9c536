"""JAX transformations: a call with tracers runs the Python source under jit.

An executable cannot be traced through. So inside jit, grad, vmap and the like, a kernel or a
function under `aotbuild.precompiled` calls its source, and the transformation sees the operations
in it. `private.has_tracers` recognizes such a call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, cast

import jax

from aotbuild.errors import NotTransformable
from aotbuild.format.signature import Function
from aotbuild.runtime.imports import import_named


class PythonSource:
    """The source of one function. It is imported at its first use, unless the caller gave it.

    `options` are those of `jax.jit` where the index has no static arguments, as in an editable
    install.
    """

    def __init__(
        self,
        function: Function,
        given: Callable[..., Any] | None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self._function, self._given, self._options = function, given, options

    @cached_property
    def jitted(self) -> Callable[..., Any]:
        """The source under jit, with the static arguments that it was compiled with.

        NotTransformable if it cannot be imported.
        """
        source: Any = self._given or self._import()
        source = getattr(source, "__aotbuild_source__", source)
        if hasattr(source, "lower"):
            return cast("Callable[..., Any]", source)
        options = self._options or {
            "static_argnames": [static.name for static in self._function.statics]
        }
        if self._function.wrap:
            from aotbuild.runtime.jax.wraps import jit_of

            return jit_of(self._function.wrap, source, tuple(options["static_argnames"]))
        given = {name: tuple(value) for name, value in options.items() if value}
        return cast("Callable[..., Any]", jax.jit(source, **given))

    def _import(self) -> Any:
        name, call = self._function.name, self._function.call
        try:
            return import_named(call)
        except Exception as err:  # the user's module runs here and may raise anything
            raise NotTransformable(name, call, f"{type(err).__name__}: {err}") from err
