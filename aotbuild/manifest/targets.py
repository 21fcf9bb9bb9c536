"""Targets and toolchains: the files that targets name are read, and no two are the same."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from packaging.version import Version
from pydantic import ValidationError

from aotbuild.errors import ManifestError, Problem
from aotbuild.format.words import quote
from aotbuild.manifest.model import Manifest
from aotbuild.manifest.problems import START, Problems
from aotbuild.manifest.reader import read_text, read_yaml
from aotbuild.manifest.validate import report
from aotbuild.platforms.building import Request


def read_targets(model: Manifest, problems: Problems) -> tuple[Request, ...]:
    """Return the targets; report what two of them, or one of them twice, would build."""
    targets: list[Request] = []
    seen: dict[str, int] = {}
    for index, item in enumerate(model.targets):
        place = _Item(index, item.platform, problems)
        files = item.description.read(item.options, place)
        target = Request(item.platform, item.options, files)
        targets.append(target)
        parts = target.description.parts(target)
        for part in (f"{target.platform} {part}" for part in parts):
            if part in seen:
                where = "in this one" if seen[part] == index else f"in targets.{seen[part]}"
                place.report(f"duplicate target {quote(part)}, already {where}")
            seen.setdefault(part, index)
        if not parts and not place.has_problems:
            place.report("this target names nothing to build for; expected at least one entry")
    return tuple(targets)


def check_toolchains(model: Manifest, problems: Problems) -> None:
    """Report toolchains of the same jax."""
    seen: dict[Version, int] = {}
    for index, toolchain in enumerate(model.toolchains):
        # Records of one jaxlib and two Pythons could not be told apart where they are loaded.
        first = seen.setdefault(Version(toolchain.jax), index)
        if first != index:
            message = f"duplicate toolchain: jax {toolchain.jax} is already in toolchains.{first}"
            problems.report(("toolchains", index), message)


class _Item:
    """See `aotbuild.platforms.building.TargetItem`."""

    def __init__(self, index: int, platform: str, problems: Problems) -> None:
        self._index, self._platform, self._problems = index, platform, problems
        self.folder = Path(problems.file).parent
        self.has_problems = False

    def report(self, message: str, *steps: str | int) -> None:
        self.has_problems = True
        below = (self._platform, *steps) if steps else ()
        self._problems.report(("targets", self._index, *below), message)

    def extend(self, problems: Iterable[Problem]) -> None:
        self.has_problems = True
        self._problems.extend(problems)

    def read_model(self, file: Path, model: type[Any], expected: str) -> Any:
        return read_model(file, model, expected)


def read_model(file: Path, model: type[Any], expected: str) -> Any:
    """Read a YAML file as a pydantic model; `expected` says in problems what it should hold.

    Raises:
        ManifestError: with every problem of the file, which it names.
    """
    text, problems = read_text(str(file)), Problems(str(file))
    document = read_yaml(text, problems) if text.strip() else None
    if document is None or not isinstance(document.data, dict):
        found = document.describe(()) if document else "nothing"
        problems.add(START, (), f"expected {expected}, found {found}")
        raise ManifestError(problems.found)
    problems.document = document
    try:
        return model.model_validate(document.data)
    except ValidationError as err:
        for error in err.errors(include_url=False, include_input=False):
            report(error, problems, model)
        raise ManifestError(problems.found) from err
