"""Environment variables that turn a part of the build on or off."""

from __future__ import annotations

from collections.abc import Mapping

from aotbuild.errors import PlanError


def is_on(variable: str, environment: Mapping[str, str]) -> bool:
    """Return whether a variable does not say `off`; PlanError if it is neither that nor `on`.

    `1` and `0` mean the same.
    """
    text = environment.get(variable) or "on"
    if text not in ("on", "off", "1", "0"):
        msg = f"{variable}: expected on or off, found {text!r}"
        raise PlanError(msg)
    return text in ("on", "1")
