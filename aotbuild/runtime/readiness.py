"""Readiness: which executables a library needs, which are loaded, and why others are not."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from aotbuild.errors import NoExecutable
from aotbuild.runtime.fitting import Fitting, Missing, Selected, label_of

if TYPE_CHECKING:
    from aotbuild.runtime.loader import Loader

# What names an executable on its devices.
_Key: TypeAlias = tuple[Any, ...]
# An executable, its key and its label.
_Left: TypeAlias = tuple[Selected, _Key, str]

_SHOWN = 20
_REMEDY = (
    "Install a wheel that was built for this host, or leave these functions out: name the others, "
    "preload('this', 'that', require=True)."
)


@dataclass(frozen=True)
class Readiness:
    """Whether a library can serve without loading anything. True if nothing is missing.

    `str()` of it is meant to be read, `to_dict()` is for a health endpoint.

    Attributes:
        expected: All signatures of the functions, as `score(batch=8)`.
        loaded: Those of them whose executables are in memory.
        missing: The others, each with its reasons.
    """

    expected: tuple[str, ...]
    loaded: tuple[str, ...]
    missing: tuple[Missing, ...]

    def __bool__(self) -> bool:
        return not self.missing

    def __str__(self) -> str:
        counts = f"{len(self.loaded)} of {len(self.expected)} signatures are loaded"
        lines = [f"{'ready' if self else 'not ready'}: {counts}"]
        lines += [f"  {missing}" for missing in self.missing[:_SHOWN]]
        more = len(self.missing) - _SHOWN
        return "\n".join([*lines, *([f"  and {more} more"] if more > 0 else [])])

    def to_dict(self) -> dict[str, Any]:
        """Return plain data: counts, and the missing signatures."""
        missing = [
            {
                "function": each.function,
                "signature": each.signature,
                "status": each.status,
                "reasons": list(each.reasons),
            }
            for each in self.missing
        ]
        counts = {"expected": len(self.expected), "loaded": len(self.loaded)}
        return {"ready": bool(self), **counts, "missing": missing}


class Progress:
    """What preloads have begun and not finished, and what failed. Safe to use from any thread."""

    def __init__(self) -> None:
        self._begun: set[_Key] = set()
        self._failed: dict[_Key, str] = {}

    def begin(self, items: Iterable[Selected]) -> None:
        """Take note of what a preload will load, and run if it primes."""
        self._begun.update(map(_key, items))

    def end(self, items: Iterable[Selected]) -> None:
        """Take note of what is done, or will not be done."""
        self._begun.difference_update(map(_key, items))

    def fail(self, item: Selected, error: Exception) -> None:
        """Take note of why an executable could not be loaded or run."""
        self._failed[_key(item)] = " ".join(str(error).split())

    def status(self, key: _Key, is_loaded: bool) -> tuple[str, tuple[str, ...]] | None:
        """Return (status, reasons) of an executable that is not ready; None if it is."""
        if key in self._begun:
            return "loading", ("it is being preloaded",)
        if is_loaded:
            return None
        failed = self._failed.get(key)
        return ("failed", (failed,)) if failed else ("not loaded", ("preload or a call loads it",))


class Expected:
    """What some functions need on some devices. Judged once; then each look is at the rest only."""

    def __init__(self, found: Fitting) -> None:
        left = tuple((item, _key(item), label_of(item.record)) for item in found.selected)
        labels = [label for *_, label in left]
        self._labels = (*labels, *(each.signature for each in found.missing))
        self._refused = found.missing
        # One attribute, because several threads may look at once.
        self._seen: tuple[tuple[str, ...], tuple[_Left, ...]] = (), left

    def look(self, loader: Loader, progress: Progress) -> Readiness:
        """Return what is loaded now."""
        loaded, left = self._seen
        new, rest, missing = list[str](), list[_Left](), [*self._refused]
        for item, key, label in left:
            status = progress.status(key, loader.has(item.record, item.placement.devices))
            if status is None:
                new.append(label)
            else:
                rest.append((item, key, label))
                missing.append(Missing(item.record.function, label, *status))
        if new:
            loaded = (*loaded, *new)
            self._seen = loaded, tuple(rest)
        return Readiness(self._labels, loaded, tuple(missing))


def _key(item: Selected) -> _Key:
    record = item.record
    return (record.blob.sha256, str(record), item.placement.devices)


def require(found: Fitting, absent: Sequence[str]) -> None:
    """Raise NoExecutable if a signature has no executable here, with every reason."""
    if not found.missing:
        return
    functions = dict.fromkeys(each.function for each in found.missing)
    count = len(found.missing) + len(found.selected)
    summary = f"{len(found.missing)} of {count} signatures have no executable here"
    lines = [f"{each.signature}: {'; '.join(each.reasons)}" for each in found.missing]
    raise NoExecutable(", ".join(functions), summary, [*lines, *absent], _REMEDY)
