"""Policies: what a call without a fitting executable does, and who decides that."""

from __future__ import annotations

import os

from aotbuild.errors import AotbuildError

POLICIES = ("none", "portable", "jit")
VARIABLE = "AOTBUILD_FALLBACK"


def policy_of(default: str | None) -> str:
    """Return the policy in force: the operator's variable, else `default`, else `none`."""
    chosen = os.environ.get(VARIABLE)
    if chosen:
        check_policy(chosen, f"the environment variable {VARIABLE}")
        return chosen
    check_policy(default, "the index's fallback")
    return default or "none"


def check_policy(value: str | None, place: str) -> None:
    """Raise AotbuildError unless a value is a policy, or None for no opinion."""
    if value is not None and value not in POLICIES:
        msg = f"{place}: expected one of {', '.join(POLICIES)}, found {value!r}; set one of these"
        raise AotbuildError(msg)
