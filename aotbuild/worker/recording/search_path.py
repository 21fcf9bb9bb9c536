"""What code changes of the way that modules are found: `sys.path`, `__path__`, and finders.

A folder that is added is searched from then on, so a module may appear in it. What no names
can stand for is a problem: another order, or a finder of the user's.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

from aotbuild.store.folder_names import names_in
from aotbuild.store.import_path import ImportPath
from aotbuild.worker.recording.reader import unseen


class SearchPath:
    """Compares with what was there at first. `is_own` says which modules are the user's.

    `folders` were added, with the names in them then. `problems` say what changed
    otherwise, for people.
    """

    def __init__(self, is_own: Callable[[str], bool]) -> None:
        self._is_own = is_own
        self._path, self._finders, self._hooks = _now()
        self._last = _now()
        self.folders: dict[str, list[str]] = {}
        self.problems: set[str] = set()

    def look(self) -> None:
        """Look at what is searched now: at each import, because code may undo what it did."""
        path, finders, hooks = self._last
        if sys.path == path and sys.meta_path == finders and sys.path_hooks == hooks:
            return
        self._last = _now()
        with unseen():
            self._look()

    def _look(self) -> None:
        entries = [entry for entry in dict.fromkeys(sys.path) if isinstance(entry, str)]
        self._compare("sys.path", entries, self._path)
        for kind, before in (("meta_path", self._finders), ("path_hooks", self._hooks)):
            now = getattr(sys, kind)
            for each in _without(now, before):
                module = str(getattr(each, "__module__", ""))
                if self._is_own(module):
                    self.problems.add(f"{module} puts a finder of its own on sys.{kind}")
            if [each for each in before if each in now] != before:
                self.problems.add(f"something was taken from sys.{kind}")

    def look_at_packages(self, path: ImportPath) -> None:
        """Look at which folders packages take their modules from."""
        for name, module in [*sys.modules.items()]:
            given: Any = getattr(module, "__dict__", {}).get("__path__")
            place = path.find(name) if given is not None else None
            if place is None:
                continue
            folders = [each for each in given if isinstance(each, str)]
            if self._is_own(name):
                self._compare(f"{name}.__path__", folders, place.folders)
            else:
                self._add(_without(folders, place.folders))

    def changed(self, modules: Collection[str]) -> str | None:
        """Return a folder that one of these modules came to or left since it was added."""
        parts = {part for module in modules for part in module.split(".")}
        for folder, before in self.folders.items():
            names = {*before} ^ {*names_in(folder)}
            if any(name.rstrip("/").partition(".")[0] in parts for name in names):
                return folder
        return None

    def _compare(self, what: str, now: Sequence[str], before: Sequence[str]) -> None:
        if [each for each in now if each in before] != [*dict.fromkeys(before)]:
            self.problems.add(f"{what} has another order, or lacks folders")
        self._add(_without(now, before))

    def _add(self, folders: Iterable[str]) -> None:
        for each in folders:
            folder = os.path.abspath(each)  # noqa: PTH100 (follows no link)
            if folder not in self.folders:
                self.folders[folder] = names_in(folder)


def _now() -> tuple[list[Any], list[Any], list[Any]]:
    return [*sys.path], [*sys.meta_path], [*sys.path_hooks]


def _without(now: Iterable[Any], before: Sequence[Any]) -> list[Any]:
    return [each for each in now if each not in before]
