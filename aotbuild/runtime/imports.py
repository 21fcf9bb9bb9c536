"""Imports of what a package names: sources, types of results, templates and callbacks."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from aotbuild.errors import AotbuildError

if TYPE_CHECKING:
    from aotbuild.format.imports import Imports
    from aotbuild.runtime.source import Source

VARIABLE = "AOTBUILD_ALLOW_IMPORTS"


def imports_of(
    source: Source, asked: str | None, stated: str, allowed: Iterable[str] | None
) -> Imports:
    """Return what a package may import.

    `asked` is the name that the caller asked for, None for a path; `stated` is that of the index.
    """
    from aotbuild.format.imports import Imports

    def dependencies() -> Any:
        from aotbuild.runtime.own_modules import dependencies_of

        return dependencies_of(source, asked or stated)

    names = tuple(allowed or ())
    more = lambda: (*names, *_of_operator())  # noqa: E731
    return Imports(asked or stated, more, dependencies, is_known=asked is not None)


def imports_in(source: Source) -> Callable[[], Imports]:
    """Return what gives the imports of the package in a folder or wheel."""

    def read() -> Imports:
        from aotbuild.runtime.source import open_index

        return imports_of(source, None, str(open_index(source).header.get("package", "")), None)

    return read


def check_allowed(allowed: Any, caller: str) -> None:
    """Raise AotbuildError unless `allow_imports=` is None or names of modules."""
    if allowed is not None:
        _checked(allowed, f"{caller}(allow_imports=…)")


def _of_operator() -> tuple[str, ...]:
    text = os.environ.get(VARIABLE, "")
    names = [name.strip() for name in text.split(",") if name.strip()]
    return _checked(names, f"the environment variable {VARIABLE}") if names else ()


def _checked(names: Any, origin: str) -> tuple[str, ...]:
    from aotbuild.format.imports import check_names

    try:
        return check_names(names, origin)
    except ValueError as err:
        raise AotbuildError(str(err)) from err


def import_named(name: str, imports: Imports) -> Any:
    """Return the object `module:qualname`; ImportRefused unless the package may name it.

    Raises what importing its module raises, too.
    """
    with outside_traces():
        return imports.imported(name)


def outside_traces() -> AbstractContextManager[None]:
    """Return a context for running code of the user's that is run once for the whole process.

    The first call may be inside a JAX transformation of the caller. Arrays that the code makes must
    not become tracers of that transformation, which globals would keep.
    """
    # Without jax there is no transformation; it may also be half imported in another thread.
    context: Any = getattr(sys.modules.get("jax"), "ensure_compile_time_eval", nullcontext)
    made: AbstractContextManager[None] = context()
    return made
