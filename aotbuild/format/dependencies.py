"""The distributions that a package belongs to and requires, and the modules that they have.

Only a name of a module that is neither the package's nor jax's needs them. Imported late:
importlib.metadata takes 10 ms.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

from aotbuild.format.dist_info import UNREADABLE
from aotbuild.format.files import read_regular_text
from aotbuild.format.toml_text import read_toml

# PEP 508: a name, extras, and the rest with the marker.
_REQUIREMENT = re.compile(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)\s*(?:\[([^\]]*)\])?")
_EXTRA = re.compile(r"""extra\s*==\s*['"]([^'"]+)['"]""")
# Of the package's own requirements, those of all extras count: nobody knows which were installed.
_ALL = None


class Distributions:
    """What some requirements name, with all that these require.

    `own` are distributions that hold the package, `roots` the folders of projects whose modules are
    its own. `requirements` are those of `own`, or of the projects. Others are looked up on `path`,
    by default `sys.path`.
    """

    def __init__(
        self,
        requirements: Iterable[str],
        own: Iterable[metadata.Distribution] = (),
        roots: Iterable[Path] = (),
        path: Sequence[str] | None = None,
    ) -> None:
        self._requirements = tuple(requirements)
        self._own, self._roots, self._path = tuple(own), tuple(roots), path

    @property
    def names(self) -> tuple[str, ...]:
        """The names of what the package itself requires, sorted."""
        return tuple(sorted({name for name, _ in _parsed(self._requirements, _ALL)}))

    def provide(self, module: str) -> bool:
        """Return whether one of them has a module."""
        top = module.partition(".")[0]
        if _place_below(top, self._roots):
            return True
        others = self._required
        return _normal(top) in others or any(
            _has(each, module) for each in (*self._own, *others.values())
        )

    @cached_property
    def _required(self) -> dict[str, metadata.Distribution]:
        """All installed distributions that are required, directly or not, by normalized name."""
        found: dict[str, metadata.Distribution] = {}
        seen: set[tuple[str, str]] = set()
        waiting = [*_parsed(self._requirements, _ALL)]
        while waiting:
            name, extras = waiting.pop()
            new = [extra for extra in ("", *extras) if (name, extra) not in seen]
            seen.update((name, extra) for extra in new)
            distribution = (found.get(name) or self._installed(name)) if new else None
            if distribution is not None:
                found[name] = distribution
                waiting += _parsed(_requirements_of(distribution), frozenset(new))
        return found

    def _installed(self, name: str) -> metadata.Distribution | None:
        if self._path is None:
            found = metadata.distributions(name=name)
        else:
            found = metadata.distributions(name=name, path=[*self._path])
        return next(iter(found), None)


def of_distribution(distribution: metadata.Distribution) -> Distributions:
    """Return what an installed distribution, or a wheel, requires."""
    root = editable_root(distribution)
    own = (distribution,) if root is None else ()
    return Distributions(_requirements_of(distribution), own, () if root is None else (root,))


def of_project(root: Path, path: Sequence[str] | None = None) -> Distributions:
    """Return what the pyproject.toml of a folder says that it requires; `path` is as above."""
    return Distributions(_stated(_tables(root)), roots=[root], path=path)


def is_complete(root: Path) -> bool:
    """Return whether a pyproject.toml itself says what the project requires."""
    data = _tables(root)
    hooks = {*_table(data, "tool", "hatch", "metadata", "hooks")} - {"aotbuild"}
    dynamic = _table(data, "project").get("dynamic")
    is_dynamic = isinstance(dynamic, list) and "dependencies" in dynamic
    return not is_dynamic or not (hooks or _table(data, "tool", "setuptools", "dynamic"))


def editable_root(distribution: metadata.Distribution) -> Path | None:
    """Return the folder of the project of an editable install; None for any other."""
    try:
        found = json.loads(distribution.read_text("direct_url.json") or "null")
        if not found["dir_info"].get("editable"):
            return None
        return Path(url2pathname(urlsplit(found["url"]).path))
    except (*UNREADABLE, AttributeError):
        return None


def _tables(root: Path) -> dict[str, object]:
    try:
        return read_toml(read_regular_text(root / "pyproject.toml"))
    except (OSError, ValueError):
        return {}


def _stated(data: dict[str, object]) -> Iterator[str]:
    """Yield the requirements in a pyproject.toml: the project's, its extras', the hook's."""
    project = _table(data, "project")
    hook = _table(data, "tool", "hatch", "metadata", "hooks", "aotbuild")
    lists = [*_table(project, "optional-dependencies").values()]
    for each in (project.get("dependencies"), hook.get("dependencies"), *lists):
        if isinstance(each, list):
            yield from (text for text in each if isinstance(text, str))
    yield from _table(data, "tool", "poetry", "dependencies")


def _table(data: dict[str, object], *keys: str) -> dict[str, object]:
    for key in keys:
        found = data.get(key)
        data = found if isinstance(found, dict) else {}
    return data


def _parsed(
    requirements: Iterable[str], extras: frozenset[str] | None
) -> Iterator[tuple[str, frozenset[str]]]:
    """Yield the normalized name and the extras of each requirement that these extras ask for.

    Other markers are ignored: what they leave out is not installed.
    """
    for text in requirements:
        match = _REQUIREMENT.match(text)
        if match is None:
            continue
        of = {_normal(extra) for extra in _EXTRA.findall(text.partition(";")[2])}
        if extras is _ALL or not of or of & extras:
            wanted = (match[2] or "").split(",")
            yield _normal(match[1]), frozenset(_normal(each.strip()) for each in wanted if each)


def _normal(name: str) -> str:
    """Return the name of a distribution as PEP 503 compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _requirements_of(distribution: metadata.Distribution) -> list[str]:
    try:
        return list(distribution.requires or ())
    except UNREADABLE:
        return []


def _has(distribution: metadata.Distribution, module: str) -> bool:
    """Return whether a distribution lists a module's files; an editable one, its folder."""
    root = editable_root(distribution)
    if root is not None and _place_below(module.partition(".")[0], [root]):
        return True
    try:
        record = distribution.read_text("RECORD")
        tops = (distribution.read_text("top_level.txt") or "").split() if record is None else []
    except UNREADABLE:
        return False
    top, path = module.partition(".")[0], module.replace(".", "/")
    # Of a namespace package others have parts, too; and a package may make modules without files.
    owned = (f"{path}/", f"{path}.", f"{top}/__init__.py,")
    return top in tops or any(f"\n{start}" in f"\n{record}" for start in owned)


def _place_below(top: str, roots: Sequence[Path]) -> bool:
    """Return whether Python finds a top-level module below one of some folders."""
    if not roots:
        return False
    try:
        spec = find_spec(top)
    except (ImportError, ValueError, AttributeError):
        return False
    places = [] if spec is None else [spec.origin, *(spec.submodule_search_locations or ())]
    files = [Path(place).resolve() for place in places if place]
    return any(_is_project_file(file, root.resolve()) for file in files for root in roots)


def _is_project_file(file: Path, root: Path) -> bool:
    # An environment may be in the project's folder.
    return file.is_relative_to(root) and not any(
        part.endswith("-packages") for part in file.relative_to(root).parts
    )
