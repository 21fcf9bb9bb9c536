"""The tag of a wheel that holds native code of other hooks, such as extension modules."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from aotbuild.errors import PlanError


def tag_for_all(tag: str, build_data: Mapping[str, Any], inferred: Callable[[], str]) -> str:
    """Return the tag that fits the executables and what hooks before this one added.

    `tag` is that of the executables, which any Python 3 loads. A hook that builds an extension
    module sets another one, or has hatchling infer it: then it fits this Python alone, and this
    platform.
    """
    asked = build_data.get("tag") or (inferred() if build_data.get("infer_tag") else "")
    if asked.count("-") != 2:
        return tag
    python, abi, platform = asked.split("-")
    return f"{python}-{abi}-{tag.split('-')[2] if platform == 'any' else platform}"


def check_tag(tag: str, made: str, build_data: Mapping[str, Any]) -> None:
    """Raise PlanError if a later hook asked for a tag in vain, because this one had set it.

    `tag` is that of the executables, and `made` the one that was put into `build_data`.
    """
    if made == tag and build_data.get("tag") == tag and build_data.get("infer_tag"):
        msg = (
            f"another hook has hatchling infer the wheel's tag, which is {tag} already\n"
            "List that hook before aotbuild's in pyproject.toml: the tag then fits both."
        )
        raise PlanError(msg)
