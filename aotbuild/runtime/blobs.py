"""Blobs in memory: each read and checked once, by whoever needs it first or ahead of that."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from aotbuild.errors import AotbuildError
from aotbuild.runtime.buffers import Mapper
from aotbuild.runtime.once import Once
from aotbuild.runtime.source import Source, view_blob
from aotbuild.runtime.worker import Worker
from aotbuild.spec.record import Blob

# Reading ahead costs a thread, 0.1 ms; at 1 to 2 GB a second that is this much.
_WORTH_A_THREAD = 256 * 1024


class Blobs:
    """The blobs of one package that become constants.

    With `maps` they may be mappings of their files, which have to stay as they are. A view is kept
    until who reads ahead is done; what was made of it keeps its memory.
    """

    def __init__(self, source: Source, *, maps: bool = True) -> None:
        self._source = source
        self._mapper = Mapper(maps=maps)
        self._views: Once[memoryview] = Once()
        self._used: set[str] = set()

    def place(self, blob: Blob) -> str:
        """Return what names a blob in errors."""
        return f"{self._source.place}/{blob.path}"

    def view(self, blob: Blob) -> memoryview:
        """Return a blob from a multiple of 64 on; DamagedBlob unless it is the one that was built.

        Who has made of it what is kept says so by `used`.
        """
        return self._views.get(blob.sha256, lambda: view_blob(self._source, blob, self._mapper))

    def used(self, blob: Blob) -> None:
        """Say that a blob need not be read ahead any more."""
        self._used.add(blob.sha256)

    @contextmanager
    def ahead(self, blobs: Sequence[Blob]) -> Iterator[None]:
        """Read blobs in another thread while this one does something else, and needs them later.

        What fails there is tried again by who needs it, and raises there.
        """
        stopped = threading.Event()
        reader = self._reader(blobs, stopped)
        try:
            if reader:
                reader.start()
            yield
        finally:
            stopped.set()
            if reader:
                reader.wait()
            for blob in blobs:
                self._views.forget(blob.sha256)

    def clear(self) -> None:
        """Forget all of them."""
        self._views.clear()
        self._used.clear()

    def _reader(self, blobs: Sequence[Blob], stopped: threading.Event) -> Worker | None:
        """Return what would read what nobody has used yet; None if that is not worth it."""
        unused = [blob for blob in blobs if blob.sha256 not in self._used]
        if sum(blob.size for blob in unused) < _WORTH_A_THREAD:
            return None
        return Worker("aotbuild-blobs", lambda: self._read_all(unused, stopped))

    def _read_all(self, blobs: Sequence[Blob], stopped: threading.Event) -> None:
        for blob in blobs:
            if stopped.is_set():
                return
            if blob.sha256 not in self._used:
                with suppress(AotbuildError, MemoryError):
                    self.view(blob)
