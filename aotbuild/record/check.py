"""Whether a package has an executable for a call, by what the runtime itself says of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aotbuild.record.call_log import CallLog, Tally
from aotbuild.record.specs import avals_in

if TYPE_CHECKING:
    from aotbuild.record.watcher import CallCheck


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


def unserved(log: CallLog) -> list[dict[str, Any]]:
    """Return the checked signatures that no executable serves, those that cost most first.

    Of each: `call`, `signature`, how many `calls` it had, and `why` nothing serves it.
    """
    found = []
    for key, why in log.verdicts.items():
        call = log.calls.get(key)
        function = log.functions.get(call.function) if call else None
        if why and call and function:
            words = [f"{a.name} {', '.join(avals_in(a.spec))}" for a in call.arguments]
            words += [f"{name}={value!r}" for name, value in call.statics]
            tally = log.tallies.get(key, Tally())
            facts = {"call": function.call, "signature": ", ".join(words)}
            found.append((tally.seconds, {**facts, "calls": tally.calls, "why": why}))
    return [facts for _, facts in sorted(found, key=lambda pair: -pair[0])]
