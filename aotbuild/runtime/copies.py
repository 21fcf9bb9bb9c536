"""Arguments that a call copies before it runs: counted, and noted once where they are large."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from aotbuild.runtime.observers import log
from aotbuild.runtime.trees import leaf_steps

if TYPE_CHECKING:
    from aotbuild.runtime.backends.protocol import Trees
    from aotbuild.runtime.binding import Call
    from aotbuild.runtime.package import Package

# Bytes of one call from which on it is noted.
_WORTH_A_NOTE = 1_000_000
_SHOWN = 4


def is_large(copied: Sequence[tuple[int, int]]) -> bool:
    """Return whether a call copies enough to be noted; `copied` are (index of leaf, bytes)."""
    return sum(size for _, size in copied) > _WORTH_A_NOTE


def note(package: Package, call: Call, copied: Sequence[tuple[int, int]], trees: Trees) -> None:
    """Log what a call copies, by argument."""
    steps, sizes = leaf_steps(call.bound, trees), Counter[str]()
    for index, size in copied:
        sizes[steps[index][0]] += size
    function, total = call.bound.function, sum(sizes.values())
    named = [f"{name} ({_mb(size)})" for name, size in sizes.most_common(_SHOWN)]
    more = f" and {len(sizes) - _SHOWN} more" if len(sizes) > _SHOWN else ""
    donated = [name for name in sizes if name in function.donate]
    text = (
        f"{function.name}: calls like this one copy {_mb(total)} of arguments: "
        f"{', '.join(named)}{more}. Place once what you pass again: x = library.place(x)"
    )
    if donated:
        what = ", ".join(donated)
        text += (
            f". What is donated ({what}) is copied unless it is a result that was kept on the "
            f"device: library.{function.name}.keeping(…)"
        )
    log("warning", "copied", text, package=package.name, function=function.name, bytes=total)


def _mb(size: int) -> str:
    return f"{size / 1e6:.1f} MB"
