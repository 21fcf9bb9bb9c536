"""Whether a package has an executable for a call, by what the runtime itself says of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from aotbuild.record.call_log import CallLog, Tally
from aotbuild.record.specs import avals_in

if TYPE_CHECKING:
    from aotbuild.record.watcher import CallCheck


@dataclass(frozen=True)
class Unserved:
    """A signature that no executable serves: how often it was called, and why none does."""

    call: str
    signature: str
    calls: int
    why: str


def check_with(place: str) -> CallCheck:
    """Return what says why no executable at a place serves a call; empty if one does."""
    from aotbuild.runtime.api import load

    library = load(place)

    def check(function: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        names = [f.name for f in library._package.index.functions() if f.call == function]
        errors = [library.explain(name, *args, **kwargs).error for name in names]
        if not errors:
            return f"no function of the package calls {function}"
        return "" if None in errors else str(errors[0])

    return check


def unserved(log: CallLog) -> list[Unserved]:
    """Return the checked calls that no executable serves, those that cost most first."""
    found = []
    for key, why in log.verdicts.items():
        call = log.calls.get(key)
        function = log.functions.get(call.function) if call else None
        if why and call and function:
            words = [f"{a.name} {', '.join(avals_in(a.spec))}" for a in call.arguments]
            words += [f"{name}={value!r}" for name, value in call.statics]
            tally = log.tallies.get(key, Tally())
            found.append((tally, Unserved(function.call, ", ".join(words), tally.calls, why)))
    return [each for _, each in sorted(found, key=lambda pair: -pair[0].seconds)]
