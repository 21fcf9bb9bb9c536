"""Which modules are imported, and by whom; also those that are loaded already, or don't exist."""

from __future__ import annotations

import builtins
import functools
import importlib
import importlib.util
import sys
from collections.abc import Callable
from importlib.util import resolve_name
from types import FrameType
from typing import Any

from aotbuild.worker.recording.databases import watch_databases
from aotbuild.worker.recording.reader import Reader, is_seen, unseen

_SQLITE = "_sqlite3"


def watch_imports(reader: Reader) -> None:
    """Tell of import statements, of `import_module` and `find_spec`, and of what is not found."""
    builtins.__import__ = _statement(reader)
    if _SQLITE in sys.modules:
        watch_databases(reader, sys.modules[_SQLITE])

    def imported(name: str, frame: FrameType) -> None:
        reader.imported(name, frame, None)

    _replace(importlib, "import_module", _by_name(importlib.import_module, imported))
    _replace(importlib.util, "find_spec", _by_name(importlib.util.find_spec, reader.sought))
    sys.meta_path.append(_last_finder(imported))


def _replace(module: Any, name: str, watched: Any) -> None:
    """Replace a function of a module, also where other modules have it already."""
    plain = getattr(module, name)
    for each in [*sys.modules.values()]:
        if getattr(each, "__dict__", {}).get(name) is plain:
            setattr(each, name, watched)


def _statement(reader: Reader) -> Any:
    plain = builtins.__import__
    seen: set[Any] = set()

    @functools.wraps(plain)
    def import_(  # its parameters may be named, too
        name: str,
        globals: Any = None,  # noqa: A002
        locals: Any = None,  # noqa: A002
        fromlist: Any = (),
        level: int = 0,
    ) -> Any:
        names = globals if isinstance(globals, dict) else {}
        importer = names.get("__name__")
        known = (importer, name, level, tuple(fromlist or ()))
        if known in seen or not is_seen():
            return plain(name, globals, locals, fromlist, level)
        try:
            return plain(name, globals, locals, fromlist, level)
        finally:
            with unseen():
                found = _full_names(name, names, fromlist or (), level)
                tell = functools.partial(reader.imported, frame=sys._getframe(1), importer=importer)
                settled = [tell(full) for full in found]
                if name == _SQLITE and name in sys.modules:
                    # Before anything has its functions.
                    watch_databases(reader, sys.modules[name])
                if all(settled):
                    seen.add(known)

    return import_


def _full_names(name: str, names: dict[str, Any], fromlist: Any, level: int) -> list[str]:
    """Return the modules that an import statement names, which may be loaded already."""
    if level:
        package = names.get("__package__") or str(names.get("__name__", "")).rpartition(".")[0]
        try:
            name = resolve_name("." * level + name, package)
        except ImportError:
            return []
    wanted = list(fromlist)
    if "*" in wanted:
        wanted += [each for each in getattr(sys.modules.get(name), "__all__", ()) if each != "*"]
    return [name, *(full for each in wanted if (full := f"{name}.{each}") in sys.modules)]


def _by_name(plain: Any, tell: Callable[[str, FrameType], object]) -> Any:
    """Return `import_module` or `find_spec`, telling which module is asked for."""

    @functools.wraps(plain)
    def function(name: str, package: str | None = None) -> Any:
        try:
            return plain(name, package)
        finally:
            if is_seen():
                with unseen():
                    tell(resolve_name(name, package) if package else name, sys._getframe(1))

    return function


def _last_finder(tell: Callable[[str, FrameType], object]) -> Any:
    class Finder:
        """What it is asked for does not exist."""

        @staticmethod
        def find_spec(name: str, path: Any = None, target: Any = None) -> None:
            del path, target
            if is_seen():
                with unseen():
                    tell(name, sys._getframe(1))

    return Finder
