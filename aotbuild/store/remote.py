"""The files of a layer behind a URL of fsspec, which may be slow, hang, refuse or be gone.

Credentials and endpoints are fsspec's business, and no text made here has what may be secret in a
URL. Every request has a limit in seconds. It runs in a thread of its own, which is left alone when
the limit is over: no library of them all can be trusted to give up.
"""

from __future__ import annotations

import importlib.util
import logging
import math
import queue
import re
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, TypeVar, cast

from aotbuild.errors import PlanError
from aotbuild.store.entry import DamagedEntry, read_head
from aotbuild.store.folder import FORMAT, KEY, name_of
from aotbuild.store.places import Place, scheme_of, secrets_of

_T = TypeVar("_T")
# An entry is read in parts of this size in bytes, so that a slow answer is not a missing one.
_PART = 2 << 20
# The slowest upload that is waited for, in bytes a second.
_SLOWEST = 100_000
# In seconds, for the names of all entries.
_LISTING = 30.0
# Before a request is made again, in seconds.
_PAUSE = 0.2
# An answer that takes longer, in seconds, and longer than its bytes take at this rate, is slow.
_USUAL, _RATE = 0.5, 1 << 20
_EXTRA = 'pip install "aotbuild[remote]"'
# What the extra has.
_LIBRARIES = {
    **dict.fromkeys(("s3", "s3a"), "s3fs"),
    **dict.fromkeys(("gs", "gcs"), "gcsfs"),
    **dict.fromkeys(("az", "abfs", "abfss", "adl"), "adlfs"),
    **dict.fromkeys(("http", "https"), "aiohttp"),
}
# It is not only the entry that is not there.
_NO_BUCKET = re.compile(r"specified (bucket|container) does not exist", re.IGNORECASE)
_NO_RANGE = re.compile(r"\b416\b|range is not satisfiable", re.IGNORECASE)
_USER = re.compile(r"//[^/\s]*@")
# What closes a sentence or a quote after it stays.
_QUERY = re.compile(r"(\w://[^\s?]*)\?\S*?(?=[\"'>)\]},.;:]*(?:\s|$))")
# Libraries that log what their errors say, too, or what is none of the user's business.
_TALKATIVE = ("adlfs", "azure", "fsspec", "gcsfs", "google", "s3fs")
_SILENT = logging.NullHandler()
# boto tries five times, for half a minute, and its errors come too late to be told.
_S3_RETRIES = {"total_max_attempts": 2}
# Nobody's key, to see whether a layer answers.
_NOBODYS = "0" * 64


@dataclass(frozen=True)
class Listed:
    """An entry of a remote layer: its size in bytes, and when it was written, if that is known."""

    key: str
    size: int
    used: float | None


class LayerFailed(OSError):
    """A layer does not work; the text says why, without secrets."""


class RemoteFiles:
    """The files of a remote layer. Safe to use from several threads.

    A request fails if it takes longer than the layer's `timeout`. When slow answers have cost that
    many seconds together, all that follow fail, unless it is `patient`.
    """

    def __init__(self, place: Place, *, patient: bool = False) -> None:
        self._place = place
        self._opened: tuple[Any, str] | None = None
        self._patience = math.inf if patient else place.timeout
        self._lock = threading.Lock()

    def has(self, key: str) -> bool:
        """Return whether there is a file for this key; LayerFailed if that cannot be known."""
        seconds = self._place.timeout
        name = name_of(key)
        return self._ask(lambda files, path: bool(files.info(path)), name, seconds) is not None

    def read(self, key: str) -> bytes | None:
        """Return the file of an entry; None if there is none; LayerFailed if it cannot be read."""
        raw = self._part(key, 0, _PART)
        if raw is None:
            return None
        try:
            size = read_head(raw, key).file_size
        except DamagedEntry:
            return raw
        parts, length = [raw], len(raw)
        # A file that is cut ends with a part that is shorter than what was asked for.
        while length < size and len(parts[-1]) >= _PART:
            part = self._part(key, length, min(length + _PART, size))
            if not part:
                break
            parts.append(part)
            length += len(part)
        return b"".join(parts)

    def write(self, key: str, raw: bytes) -> None:
        """Write the file of an entry; LayerFailed if that is not possible."""

        def write(files: Any, path: str) -> bool:
            files.pipe_file(path, raw)
            return True

        seconds = self._place.timeout + len(raw) / _SLOWEST
        if not self._ask(write, name_of(key), seconds, len(raw)):
            msg = "there is no such place"
            raise LayerFailed(msg)

    def entries(self) -> list[Listed]:
        """Return the entries, by key; LayerFailed if they cannot be listed, as those of http.

        A layer that gives no answer at all takes no longer than in a build to say so.
        """
        self.read(_NOBODYS)
        if self._place.is_http:
            msg = "a web server does not list what it has; builds read it all the same"
            raise LayerFailed(msg)

        def find(files: Any, path: str) -> dict[str, dict[str, Any]]:
            return dict(files.find(path, detail=True))

        found = self._ask(find, FORMAT, _LISTING) or {}
        named = ((path.rpartition("/")[2], facts) for path, facts in found.items())
        return [
            Listed(name, int(facts.get("size") or 0), _modified(facts))
            for name, facts in sorted(named, key=lambda pair: pair[0])
            if KEY.fullmatch(name)
        ]

    def _part(self, key: str, start: int, end: int) -> bytes | None:
        def read(files: Any, path: str) -> bytes:
            try:
                return bytes(files.cat_file(path, start=start, end=end))
            except FileNotFoundError:
                raise
            except Exception as err:
                if _NO_RANGE.search(str(err)):
                    return b""  # it ends at `start`, or before
                raise

        return self._ask(read, name_of(key), self._place.timeout, end - start)

    def _ask(
        self, call: Callable[[Any, str], _T], name: str, seconds: float, size: int = 0
    ) -> _T | None:
        """Return what a call returns within some seconds, or None if there is no such file.

        The call gets the path of `name` below the layer. `size` is how many bytes it moves at most.
        """
        if self._patience <= 0:
            msg = f"its answers were slow, by {self._place.timeout:g} s together"
            raise LayerFailed(msg)
        started = time.monotonic()
        try:
            _import(self._place)
            started = time.monotonic()  # importing may take a second, which is not the layer's
            return _within(seconds, lambda: _twice(partial(self._call, call, name)))
        except FileNotFoundError as err:
            if _NO_BUCKET.search(str(err)):
                raise LayerFailed(self._words(err)) from None
            return None
        except TimeoutError as err:
            msg = f"no answer within {seconds:g} s"
            raise LayerFailed(msg) from err
        except Exception as err:  # noqa: BLE001 (each library has errors of its own)
            raise LayerFailed(self._words(err)) from None
        finally:
            self._patience -= max(0.0, time.monotonic() - started - _USUAL - size / _RATE)

    def _call(self, call: Callable[[Any, str], _T], name: str) -> _T:
        with self._lock:
            self._opened = self._opened or _open(self._place)
        files, path = self._opened
        query = f"?{self._place.query}" if self._place.query else ""
        return call(files, f"{path}/{name}{query}")

    def _words(self, err: Exception) -> str:
        """Return one line about an error, without what may be secret."""
        text = f"{type(err).__name__}: {err}".partition("\n")[0]
        for secret in secrets_of(self._place):
            text = text.replace(secret, "…")
        return _QUERY.sub(r"\1", _USER.sub("//", text))


def open_remote(place: Place, *, patient: bool = False) -> RemoteFiles:
    """Return the files of a remote layer; PlanError if the library for its URL is missing."""
    _check_installed(place)
    return RemoteFiles(place, patient=patient)


def _check_installed(place: Place) -> None:
    try:
        from fsspec.registry import known_implementations, registry
    except ImportError as err:
        msg = f"{place}: a remote layer of the store needs fsspec: {_EXTRA}"
        raise PlanError(msg) from err
    scheme = scheme_of(place)
    known = known_implementations.get(scheme)
    if known is None and scheme not in registry:
        msg = f"{place}: expected a URL of fsspec (fsspec.available_protocols()), or a folder"
        raise PlanError(msg)
    library = _LIBRARIES.get(scheme) or (known or {"class": "fsspec"})["class"].partition(".")[0]
    if importlib.util.find_spec(library) is None:
        both = f"pip install {library}, or {_EXTRA} for all clouds"
        remedy = both if scheme in _LIBRARIES else known["err"]
        msg = f"{place}: a layer of the store behind {scheme}:// needs {library}: {remedy}"
        raise PlanError(msg)


def _import(place: Place) -> None:
    import fsspec

    for name in _TALKATIVE:
        logging.getLogger(name).addHandler(_SILENT)
    fsspec.get_filesystem_class(scheme_of(place))


def _open(place: Place) -> tuple[Any, str]:
    """Return the file system of a layer, and its path there."""
    import fsspec

    # Of its own: a listing that another user of fsspec has cached says what was there, not what is.
    files, path = fsspec.url_to_fs(
        place.url, skip_instance_cache=True, use_listings_cache=False, **_settings(place)
    )
    return files, str(path).rstrip("/")


def _settings(place: Place) -> dict[str, Any]:
    """Return what the file system of a layer is made with; the user's own settings win."""
    from fsspec.config import conf

    scheme = scheme_of(place)
    if _LIBRARIES.get(scheme) != "s3fs":
        return {}
    own = conf.get(scheme, {}).get("config_kwargs", {})
    return {"config_kwargs": {"retries": _S3_RETRIES, **own}}


def _modified(facts: Mapping[str, Any]) -> float | None:
    """Return when a file was written (seconds since 1970), from what a file system says of it."""
    for name in ("mtime", "LastModified", "last_modified", "updated", "created"):
        found = facts.get(name)
        if isinstance(found, str):
            with suppress(ValueError):
                found = datetime.fromisoformat(found)
        if isinstance(found, datetime):
            return found.timestamp()
        if isinstance(found, (int, float)):
            return float(found)
    return None


def _within(seconds: float, call: Callable[[], _T]) -> _T:
    """Return what a call returns or raise what it raises; TimeoutError if it takes longer."""
    answers: queue.SimpleQueue[tuple[_T | None, BaseException | None]] = queue.SimpleQueue()

    def run() -> None:
        try:
            answers.put((call(), None))
        except BaseException as err:  # noqa: BLE001 (raised again in the thread that waits)
            answers.put((None, err))

    threading.Thread(target=run, name="aotbuild-store", daemon=True).start()
    try:
        value, error = answers.get(timeout=seconds)
    except queue.Empty:
        raise TimeoutError from None
    if error is not None:
        raise error
    return cast(_T, value)


def _twice(call: Callable[[], _T]) -> _T:
    """Return what a call returns; try again once after an error that may not come again."""
    try:
        return call()
    except (FileNotFoundError, PermissionError, ImportError, ValueError):
        raise
    except Exception:  # noqa: BLE001 (each library has errors of its own)
        time.sleep(_PAUSE)
        return call()
