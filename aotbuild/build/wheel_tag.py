"""The tag of a wheel: of one that is built, and of one that is joined from several."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import product
from typing import Any

from aotbuild.build.plan import Plan
from aotbuild.errors import PlanError


def wheel_tag(plan: Plan) -> str:
    """Return the wheel's tag: any Python 3, no ABI, and jaxlib's own platform for native code.

    PlanError for executables and portable forms anywhere but on Linux: see `pins`.
    """
    platform = plan.environment.wheel_platform if plan.native else "any"
    if plan.native and any(u.target.is_portable for u in plan.units) and "linux" not in platform:
        msg = (
            f"{plan.manifest.file}: targets: expected a machine with Linux, found {platform}\n"
            "A wheel with executables and portable forms requires one exact jaxlib on Linux alone. "
            "Build it there, or leave out `portable`."
        )
        raise PlanError(msg)
    return f"py3-none-{platform}"


def tag_for_all(tag: str, build_data: Mapping[str, Any], inferred: Callable[[], str]) -> str:
    """Return the wheel's tag for the executables and for what hooks before this one added.

    `tag` is that of the executables, which any Python 3 loads. A hook that builds an extension
    module sets a tag itself or has hatchling infer it.
    """
    asked = build_data.get("tag") or (inferred() if build_data.get("infer_tag") else "")
    if asked.count("-") != 2:
        return tag
    python, abi, platform = asked.split("-")
    return f"{python}-{abi}-{tag.split('-')[2] if platform == 'any' else platform}"


def joined_tag(tags: Iterable[str]) -> str | None:
    """Return the compressed tag of several, such as `py3-none-a.b`; None if there is none.

    A wheel for `any` platform has portable forms alone. Joined with executables, it fits where they
    fit.
    """
    sets = [[part.split(".") for part in tag.split("-")] for tag in tags]
    wanted = {single for parts in sets for single in product(*parts)}
    wanted = {single for single in wanted if single[-1] != "any"} or wanted
    columns = [sorted(set(column)) for column in zip(*wanted, strict=True)]
    if wanted != set(product(*columns)):
        return None
    return "-".join(".".join(column) for column in columns)


def with_tags(text: str, tag: str) -> str:
    """Return a WHEEL file with the `Tag` lines of a compressed tag."""
    lines = text.replace("\r\n", "\n").rstrip("\n").split("\n")
    kept = [line for line in lines if not line.startswith("Tag:")]
    tags = product(*(part.split(".") for part in tag.split("-")))
    return "\n".join([*kept, *(f"Tag: {'-'.join(single)}" for single in tags), ""])
