"""Which modules are imported, and by whom; also those that are loaded already, or don't exist."""

from __future__ import annotations

import builtins
import functools
import importlib
import importlib.util
import os
import sys
from collections.abc import Callable
from importlib.machinery import FileFinder, PathFinder
from importlib.util import resolve_name
from types import FrameType
from typing import Any

from aotbuild.worker.recording.databases import watch_databases
from aotbuild.worker.recording.reader import Reader, is_seen, unseen

_SQLITE = "_sqlite3"
_MACHINERY = ("importlib._bootstrap", "importlib._bootstrap_external")


def watch_imports(reader: Reader) -> None:
    """Tell of import statements, of `import_module` and `find_spec`, and of what is not found."""
    builtins.__import__ = _statement(reader)
    if _SQLITE in sys.modules:
        watch_databases(reader, sys.modules[_SQLITE])

    def imported(name: str, frame: FrameType) -> None:
        reader.imported(name, frame, None)

    for module, name, tell in (
        (importlib, "import_module", imported),
        (importlib.util, "find_spec", reader.sought),
    ):
        _replace(module, name, _by_name(getattr(module, name), tell, reader.searched))
    _watch_finders(reader)
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
        if is_seen():
            reader.searched()
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


def _by_name(
    plain: Any, tell: Callable[[str, FrameType], object], begin: Callable[[], None]
) -> Any:
    """Return `import_module` or `find_spec`, telling which module is asked for."""

    @functools.wraps(plain)
    def function(name: str, package: str | None = None) -> Any:
        if is_seen():
            begin()
        try:
            return plain(name, package)
        finally:
            if is_seen():
                with unseen():
                    tell(resolve_name(name, package) if package else name, sys._getframe(1))

    return function


def _watch_finders(reader: Reader) -> None:
    """Tell of modules that code looks for by Python's finders, not by an import."""
    along_path: Any = PathFinder.find_spec
    in_folder = FileFinder.find_spec

    def find_spec(cls: Any, name: str, path: Any = None, target: Any = None) -> Any:
        if is_seen() and not _is_for_import(sys._getframe(1)):
            with unseen():
                parent = sys.modules.get(name.rpartition(".")[0])
                if path is None or [*path] == [*getattr(parent, "__path__", ())]:
                    reader.sought(name, sys._getframe(1))
                else:
                    for folder in path:
                        reader.listed(os.path.abspath(folder), sys._getframe(1))  # noqa: PTH100
        return along_path.__func__(cls, name, path, target)

    def find_in_folder(self: FileFinder, name: str, target: Any = None) -> Any:
        if is_seen() and not _is_for_import(sys._getframe(1)):
            with unseen():
                reader.listed(os.path.abspath(self.path), sys._getframe(1))  # noqa: PTH100
        return in_folder(self, name, target)

    finders: Any = (PathFinder, FileFinder)
    finders[0].find_spec, finders[1].find_spec = classmethod(find_spec), find_in_folder


def _is_for_import(frame: FrameType | None) -> bool:
    """Return whether a finder is asked for an import, directly or by another finder."""
    caller = frame and frame.f_globals.get("__name__")
    if caller in _MACHINERY:
        return True
    while frame is not None and frame.f_globals.get("__name__") == caller:
        frame = frame.f_back
    above = frame and frame.f_globals.get("__name__")
    return above in _MACHINERY and frame is not None and frame.f_code.co_name == "_find_spec"


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
