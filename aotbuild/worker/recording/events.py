"""What Python's audit events say: files, folders, shared libraries, processes and connections."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from importlib.util import source_from_cache
from types import FrameType
from typing import Any

from aotbuild.worker.recording.databases import tell_database
from aotbuild.worker.recording.made import is_of_tempfile
from aotbuild.worker.recording.reader import Reader, as_path, is_seen, told_path, unseen

# Events whose effect no digest can stand for, and what they are for people.
_OUTSIDE = {
    "subprocess.Popen": "starts a process",
    "os.system": "starts a process",
    "os.posix_spawn": "starts a process",
    "os.spawn": "starts a process",
    "os.exec": "starts a process",
    "os.fork": "starts a process",
    "os.forkpty": "starts a process",
    "socket.connect": "uses the network",
    "socket.getaddrinfo": "uses the network",
    "socket.gethostbyname": "uses the network",
    "socket.sendto": "uses the network",
    "socket.bind": "uses the network",
}
_ATTRIBUTES = ("os.getxattr", "os.listxattr")
# Events after which a path is another file, and how many paths they have.
_REPLACING = {"os.remove": 1, "os.rename": 2, "os.link": 2, "os.symlink": 2}
# Events that fail for what is not there; their last argument is an open folder.
_CHANGING = ("os.utime", "os.chmod", "os.chown")
_FOLDER_EVENTS = ("os.listdir", "os.scandir")
_BOOTSTRAP = "importlib._bootstrap_external"
_MODULE_FILES = (".py", ".pyc", ".so", ".pyd")


def watch_events(reader: Reader) -> None:
    """Tell what audit events say."""

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event in _HANDLERS and is_seen():
            with unseen():
                _HANDLERS[event](reader, event, arguments, sys._getframe(1))

    sys.addaudithook(hook)


def _opened(reader: Reader, _: str, arguments: tuple[Any, ...], frame: FrameType) -> None:
    if isinstance(arguments[0], int):
        return  # it is open already
    path = told_path(reader, arguments[0], frame)
    if path is None:
        return
    if frame.f_globals.get("__name__") == _BOOTSTRAP and path.endswith(_MODULE_FILES):
        reader.loaded(_source_of(path), frame)
    else:
        reader.opened(path, frame, arguments[2] or 0)


def _source_of(path: str) -> str:
    try:
        return source_from_cache(path)
    except ValueError:
        return path


def _imported(reader: Reader, _: str, arguments: tuple[Any, ...], frame: FrameType) -> None:
    """Tell of an extension module; of others, the name is known already."""
    path = as_path(arguments[1]) if arguments[1] else None
    if path:
        reader.loaded(path, frame)


def _listed(reader: Reader, _: str, arguments: tuple[Any, ...], frame: FrameType) -> None:
    path = told_path(reader, os.curdir if arguments[0] is None else arguments[0], frame)
    if path is not None and frame.f_globals.get("__name__") != _BOOTSTRAP:
        reader.listed(path, frame)


def _entered(reader: Reader, _: str, arguments: tuple[Any, ...], frame: FrameType) -> None:
    path = told_path(reader, arguments[0], frame)
    if path is not None:
        reader.entered(path, frame)


def _changed(reader: Reader, _: str, arguments: tuple[Any, ...], frame: FrameType) -> None:
    path = told_path(reader, arguments[0], frame, _folder(arguments[-1]))
    if path is not None:
        reader.looked(path, frame)


def _library_loaded(reader: Reader, _: str, arguments: tuple[Any, ...], frame: FrameType) -> None:
    """Tell of a shared library: its file is read; one that is found by name is the system's."""
    name = as_path(arguments[0]) and os.fsdecode(arguments[0])
    if name and os.sep not in name:
        reader.left(f"loads {name}", frame)
    elif name and (path := told_path(reader, name, frame)):
        reader.opened(path, frame)


def _connected(reader: Reader, _: str, arguments: tuple[Any, ...], frame: FrameType) -> None:
    tell_database(reader, arguments[0], frame)


def _made(reader: Reader, _: str, arguments: tuple[Any, ...], frame: FrameType) -> None:
    path = as_path(arguments[0], _folder(arguments[2]))
    if path is not None and is_of_tempfile(frame):
        reader.made(path)


def _replaced(reader: Reader, event: str, arguments: tuple[Any, ...], _: FrameType) -> None:
    count = _REPLACING[event]
    for given, folder in zip(arguments[:count], [*arguments[count:], -1, -1], strict=False):
        path = as_path(given, _folder(folder))
        if path is not None:
            reader.replaced(path)


def _folder(number: int) -> int | None:
    """Return the number of an open folder; events have -1 for none."""
    return None if number == -1 else number


def _asked_attributes(reader: Reader, _: str, __: tuple[Any, ...], frame: FrameType) -> None:
    """Tell of extended attributes, unless `shutil` passes them on to a copy."""
    if frame.f_globals.get("__name__") != "shutil":
        reader.left("reads extended attributes", frame)


def _left(reader: Reader, event: str, _: tuple[Any, ...], frame: FrameType) -> None:
    reader.left(_OUTSIDE[event], frame)


_HANDLERS: dict[str, Callable[[Reader, str, tuple[Any, ...], FrameType], None]] = {
    "open": _opened,
    "import": _imported,
    **dict.fromkeys(_FOLDER_EVENTS, _listed),
    "os.chdir": _entered,
    **dict.fromkeys(_CHANGING, _changed),
    "ctypes.dlopen": _library_loaded,
    "sqlite3.connect": _connected,
    "os.mkdir": _made,
    **dict.fromkeys(_REPLACING, _replaced),
    **dict.fromkeys(_ATTRIBUTES, _asked_attributes),
    **dict.fromkeys(_OUTSIDE, _left),
}
