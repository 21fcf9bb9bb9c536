"""The native functions that an executable calls by name, and who has to register them."""

from __future__ import annotations

import re

from aotbuild.build import jax_private
from aotbuild.spec.record import CustomCall

_TARGET = re.compile(r'custom_call_target="([^"]+)"')
# XLA's names of platforms where Python registers native functions, by ours.
_XLA_PLATFORMS = {"cpu": "cpu", "cuda": "CUDA"}
# What jax itself registers, but not before somebody imports Pallas.
_PALLAS = ("mosaic_gpu",)


class CustomCalls:
    """Tells jax's own targets from the user's: what was registered before the user's code ran."""

    def __init__(self) -> None:
        names = _XLA_PLATFORMS.items()
        self._before_user = {n: jax_private.registered_custom_calls(xla) for n, xla in names}

    def of(self, hlo: str, platform: str) -> tuple[CustomCall, ...]:
        """Return the targets in the text of an optimized HLO module, sorted."""
        found = sorted(set(_TARGET.findall(hlo)))
        return tuple(CustomCall(target, self._provider(target, platform)) for target in found)

    def _provider(self, target: str, platform: str) -> str:
        if target.startswith("lapack_"):
            return "lapack"
        if target in self._before_user.get(platform, ()) or target.startswith(_PALLAS):
            return "jax"
        xla_name = _XLA_PLATFORMS.get(platform)
        if xla_name and target in jax_private.registered_custom_calls(xla_name):
            return "user"
        return "xla"
