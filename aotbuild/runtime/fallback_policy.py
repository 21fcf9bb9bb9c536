"""Which fallback serves a call that no executable serves: the operator decides, then the caller."""

from __future__ import annotations

import os

from aotbuild.errors import AotbuildError

POLICIES = ("none", "portable", "jit")
VARIABLE = "AOTBUILD_FALLBACK"


def fallback_policy(default: str | None) -> str:
    """Return the policy in force: the operator's variable, else `default`, else `none`."""
    chosen = os.environ.get(VARIABLE)
    if chosen:
        check_policy(chosen, f"the environment variable {VARIABLE}")
        return chosen
    check_policy(default, "the index's fallback")
    return default or "none"


def check_policy(value: object, place: str) -> None:
    """Raise AotbuildError unless `value` is a fallback policy, or None for no opinion."""
    if value is not None and value not in POLICIES:
        msg = f"{place}: expected one of {', '.join(POLICIES)}, found {value!r}; set one of these"
        raise AotbuildError(msg)
