"""What trees in tests may import, which are of no package."""

from __future__ import annotations

from typing import Any

from aotbuild.format.imports import Imports


class _Anything(Imports):
    def allows(self, module: str) -> bool:
        return True

    def _is_harmless(self, owner: str, found: Any) -> bool:
        return True


def anything() -> Imports:
    """Return imports without a limit."""
    return _Anything("tests")
