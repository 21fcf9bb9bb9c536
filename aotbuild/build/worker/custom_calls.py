"""The native functions that an executable calls by name, and who has to register them."""

from __future__ import annotations

import re

from aotbuild.build import jax_private
from aotbuild.spec.record import CustomCall

_TARGET = re.compile(r'custom_call_target="([^"]+)"')


class CustomCalls:
    """Tells jax's own targets from the user's: what was registered before the user's code ran."""

    def __init__(self) -> None:
        self._before_user = jax_private.registered_custom_calls()

    def of(self, hlo: str) -> tuple[CustomCall, ...]:
        """Return the targets in the text of an optimized HLO module, sorted."""
        found = sorted(set(_TARGET.findall(hlo)))
        return tuple(CustomCall(target, self._provider(target)) for target in found)

    def _provider(self, target: str) -> str:
        if target.startswith("lapack_"):
            return "lapack"
        if target in self._before_user:
            return "jax"
        if target in jax_private.registered_custom_calls():
            return "user"
        return "xla"
