"""Entries behind a URL of fsspec, which may be slow, hang, refuse or be gone.

Credentials and endpoints are fsspec's business. Every request has a time limit. It runs in a thread
of its own, which is left alone when the limit is over: some libraries wait for minutes.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from aotbuild.errors import PlanError
from aotbuild.store.folder import name_of

_T = TypeVar("_T")
# In seconds, for an answer; and the slowest transfer that is waited for, in bytes a second.
_LIMIT, _SLOWEST = 20.0, 200_000
# What an entry may have at most for its time limit to be enough, where its size is not known.
_LARGEST = 256 << 20


class RemoteFailed(OSError):
    """The place behind a URL does not work; the text says why."""


class Remote:
    """The files of entries behind a URL. Safe to use from several threads."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._lock = threading.Lock()
        self._opened: tuple[Any, str] | None = None

    def __str__(self) -> str:
        return self.url

    @property
    def may_be_written(self) -> bool:
        """Whether it is worth a try: web servers only give files."""
        return not self.url.startswith(("http://", "https://"))

    def has(self, key: str) -> bool:
        """Return whether there is a file for this key; RemoteFailed if that cannot be known."""
        return bool(self._ask(lambda files, path: files.exists(path), key, 0))

    def read(self, key: str) -> bytes | None:
        """Return the file of an entry; None if there is none; RemoteFailed if it cannot be read."""
        try:
            return self._ask(lambda files, path: bytes(files.cat_file(path)), key, _LARGEST)
        except FileNotFoundError:
            return None

    def write(self, key: str, raw: bytes) -> None:
        """Write the file of an entry; RemoteFailed if that fails."""
        self._ask(lambda files, path: files.pipe_file(path, raw), key, len(raw))

    def _ask(self, call: Callable[[Any, str], _T], key: str, size: int) -> _T:
        """Return what a call returns in time; it gets fsspec's file system and the entry's path.

        `size` is how many bytes it moves. Raises FileNotFoundError or RemoteFailed.
        """
        answers: queue.SimpleQueue[tuple[_T | None, Exception | None]] = queue.SimpleQueue()

        def run() -> None:
            try:
                with self._lock:
                    files, root = self._opened = self._opened or self._open()
                answers.put((call(files, f"{root}/{name_of(key)}"), None))
            except Exception as err:  # noqa: BLE001 (each library has errors of its own)
                answers.put((None, err))

        threading.Thread(target=run, name="aotbuild-store", daemon=True).start()
        seconds = _LIMIT + size / _SLOWEST
        try:
            found, error = answers.get(timeout=seconds)
        except queue.Empty:
            msg = f"no answer within {seconds:.0f} s"
            raise RemoteFailed(msg) from None
        if isinstance(error, FileNotFoundError):
            raise error
        if error is not None:
            msg = f"{type(error).__name__}: {error}".partition("\n")[0]
            raise RemoteFailed(msg) from error
        return found  # type: ignore[return-value] # there was no error

    def _open(self) -> tuple[Any, str]:
        import fsspec  # an extra

        # Of its own: a listing that another user of fsspec has cached may be old.
        files, path = fsspec.url_to_fs(self.url, skip_instance_cache=True, use_listings_cache=False)
        return files, str(path).rstrip("/")


def open_remote(url: str) -> Remote:
    """Return the place behind a URL; PlanError if the library for it is missing."""
    try:
        import fsspec  # an extra
    except ImportError as err:
        msg = f'{url}: a store behind a URL needs fsspec: pip install "aotbuild[remote]"'
        raise PlanError(msg) from err
    try:
        fsspec.get_filesystem_class(url.partition("://")[0].partition("::")[0])
    except ValueError as err:
        msg = f"{url}: expected a URL of fsspec (fsspec.available_protocols()), or a folder"
        raise PlanError(msg) from err
    except ImportError as err:
        msg = f'{url}: {err}; pip install "aotbuild[remote]" brings the libraries of all clouds'
        raise PlanError(msg) from err
    return Remote(url)
