"""The custom calls of an executable, and who provides each: jax, XLA or the user's code."""

from __future__ import annotations

import re
from functools import cache

from aotbuild.format.record import PYTHON_CALL, CustomCall
from aotbuild.platforms.base import host_part, names
from aotbuild.worker import private as jax_private

_TARGET = re.compile(r'custom_call_target="([^"]+)"')


class CustomCalls:
    """Tells the user's targets, which are registered after this is made, from all others."""

    def __init__(self) -> None:
        self._before_user = {name: _registered(name) for name in names()}

    def of(self, hlo: str, platform: str) -> tuple[CustomCall, ...]:
        """Return the targets in the text of an optimized HLO module, sorted."""
        found = sorted(set(_TARGET.findall(hlo)))
        native = [target for target in found if not jax_private.is_host_callback(target)]
        calls = [CustomCall(target, self._provider(target, platform)) for target in native]
        return (*calls, *([PYTHON_CALL] if native != found else []))

    def _provider(self, target: str, platform: str) -> str:
        if target in _of_jax(platform):
            return "jax"
        return "user" if target in _registered(platform) - self._before_user[platform] else "xla"


@cache
def _of_jax(platform: str) -> frozenset[str]:
    """Return the targets that jaxlib, or the platform's plugin, has in modules of its own."""
    return frozenset(name for module in host_part(platform).kernels() for name in module.handlers)


def _registered(platform: str) -> frozenset[str]:
    """Return the targets that Python registered for a platform so far."""
    xla_name = host_part(platform).xla_name
    return jax_private.registered_custom_calls(xla_name) if xla_name else frozenset()
