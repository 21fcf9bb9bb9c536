"""Arguments that a call copies before it runs: counted, and noted once where they are large."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from aotbuild.errors import AotbuildError
from aotbuild.format.aval import NotAnArray
from aotbuild.runtime.binding import bind
from aotbuild.runtime.observers import log

if TYPE_CHECKING:
    from aotbuild.format.signature import Function
    from aotbuild.runtime.backend import Backend
    from aotbuild.runtime.package import Stats

# Bytes of one call from which on it is noted.
_WORTH_A_NOTE = 1_000_000
_SHOWN = 4


def looking_once(
    function: Function,
    backend: Backend,
    stats: Stats,
    platform: Callable[[], str],
    call: Callable[..., Any],
    found: Callable[[dict[str, int], tuple[Any, ...], dict[str, Any]], None],
    done: Callable[[], None],
) -> Callable[..., Any]:
    """Return what calls `call`, and looks at the arguments of the first call only.

    A primed function needs it: the C++ cache knows its calls, so none of them passes Python.
    """
    looked = False

    def look_and_call(*args: Any, **kwargs: Any) -> Any:
        nonlocal looked
        if looked:
            return call(*args, **kwargs)
        looked = True
        done()
        misses = stats.value("misses")
        outputs = call(*args, **kwargs)
        # A call that passed Python nevertheless was looked at there.
        if stats.value("misses") == misses:
            look(args, kwargs)
        return outputs

    def look(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        try:
            bound = bind(function, args, kwargs)
            values = dict(zip(function.dynamic, bound.args, strict=False)) | bound.kwargs
            sizes = backend.copied(values, function.donate, platform())
        except (AotbuildError, NotAnArray, ValueError):
            return  # a fallback took what no executable takes
        if sizes:
            found(sizes, args, kwargs)

    return look_and_call


def is_large(sizes: dict[str, int]) -> bool:
    """Return whether a call copies enough to be noted."""
    return sum(sizes.values()) > _WORTH_A_NOTE


def note(package: str, function: Function, sizes: dict[str, int]) -> None:
    """Log what a call copies, by argument."""
    largest = sorted(sizes.items(), key=lambda item: -item[1])
    named = [f"{name} ({_mb(size)})" for name, size in largest[:_SHOWN]]
    more = f" and {len(sizes) - _SHOWN} more" if len(sizes) > _SHOWN else ""
    total = sum(sizes.values())
    text = (
        f"{function.name}: calls like this one copy {_mb(total)} of arguments: "
        f"{', '.join(named)}{more}"
    )
    others = [name for name, _ in largest if name not in function.donate]
    if others:
        text += f". Place once what you pass again: {others[0]} = library.place({others[0]})"
    donated = [name for name in sizes if name in function.donate]
    if donated:
        text += (
            f". What is donated ({', '.join(donated)}) is copied unless it is a result that was "
            f"kept on the device: library.{function.name}.keeping(…)"
        )
    log("warning", "copied", text, package=package, function=function.name, bytes=total)


def _mb(size: int) -> str:
    return f"{size / 1e6:.1f} MB"
