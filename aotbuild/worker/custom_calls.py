"""The custom calls of an executable, and who provides each: jax, XLA, LAPACK or the user's code."""

from __future__ import annotations

import re

from aotbuild.platforms.base import host_part, names
from aotbuild.platforms.building import description
from aotbuild.spec.record import PYTHON_CALL, CustomCall
from aotbuild.worker import private as jax_private

_TARGET = re.compile(r'custom_call_target="([^"]+)"')


class CustomCalls:
    """Tells jax's own targets from the user's, which are registered after this is made."""

    def __init__(self) -> None:
        self._before_user = {name: _registered(name) for name in names()}

    def of(self, hlo: str, platform: str) -> tuple[CustomCall, ...]:
        """Return the targets in the text of an optimized HLO module, sorted."""
        found = sorted(set(_TARGET.findall(hlo)))
        native = [target for target in found if not jax_private.is_host_callback(target)]
        calls = [CustomCall(target, self._provider(target, platform)) for target in native]
        return (*calls, *([PYTHON_CALL] if native != found else []))

    def _provider(self, target: str, platform: str) -> str:
        if target.startswith("lapack_"):
            return "lapack"
        late = description(platform).late_custom_calls
        if target in self._before_user[platform] or target.startswith(late):
            return "jax"
        return "user" if target in _registered(platform) else "xla"


def _registered(platform: str) -> frozenset[str]:
    """Return the targets that Python registered for a platform so far."""
    xla_name = host_part(platform).xla_name
    return jax_private.registered_custom_calls(xla_name) if xla_name else frozenset()
