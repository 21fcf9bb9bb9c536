"""The loader: from a record to something that runs, each loaded once and shared.

What both doors do alike is here: verdict, devices, digest, initialization. What a door makes of
the bytes, and of constants, is its `Engine`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from aotbuild.errors import AotbuildError
from aotbuild.runtime.blobs import Blobs, Constants
from aotbuild.runtime.concurrency import Once
from aotbuild.runtime.devices import misplaced
from aotbuild.runtime.forked import refuse_if_forked
from aotbuild.runtime.select import Verdict
from aotbuild.runtime.source import Source, read_blob
from aotbuild.runtime.stats import Stats
from aotbuild.spec.record import Record

if TYPE_CHECKING:
    from aotbuild.runtime.backends.protocol import Engine, Placement

_REMEDY = "Rebuild the wheel with the jaxlib that is installed."
_LAPACK_REMEDY = "They come from scipy: reinstall it. At the end of a process it may be too late."


class Loader:
    """Loads the executables and constants of one package, each once for each tuple of devices.

    With `maps`, constants may be mappings of their files, which have to stay as they are.
    """

    def __init__(self, source: Source, stats: Stats, engine: Engine, *, maps: bool = True) -> None:
        self._source = source
        self._stats = stats
        self._engine = engine
        self._loaded: Once[Any] = Once()
        blobs = Blobs(source, maps=maps)
        self._constants = Constants(blobs, engine.physical, engine.put)
        self._executables: Once[Any] = Once()

    def load(self, verdict: Verdict, placement: Placement) -> Any:
        """Return the executable of a record that fits, as the engine makes it, in a placement."""
        if not verdict.fits:
            msg = f"refused: {verdict}"
            raise AotbuildError(msg)
        record = verdict.record
        refuse_if_forked(record)
        key = (record.function, record.signature.key(), record.blob.sha256, placement)
        return self._executables.get(key, lambda: self._make(record, placement))

    def load_bytes(self, record: Record, devices: tuple[Any, ...]) -> bool:
        """Load the bytes and constants of a record onto devices; return whether that was new."""
        refuse_if_forked(record)
        is_new = (record.blob.sha256, devices) not in self._loaded
        self._load_all(record, devices)
        return is_new

    def clear(self) -> None:
        """Forget everything that was loaded."""
        for cache in (self._loaded, self._constants, self._executables):
            cache.clear()

    def _make(self, record: Record, placement: Placement) -> Any:
        loaded, constants = self._load_all(record, placement.devices)
        return self._engine.executable(record, loaded, constants, placement)

    def _load_all(self, record: Record, devices: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
        """Return the bytes of a record, loaded, and its constants; both at once where it pays."""
        key, constants = (record.blob.sha256, devices), record.calling.constants
        with self._constants.ahead(constants):
            loaded = self._loaded.get(key, lambda: self._deserialize(record, devices))
            places = self._engine.constant_places(record, loaded, devices)
            return loaded, self._constants.put(constants, places)

    def _deserialize(self, record: Record, devices: tuple[Any, ...]) -> Any:
        """Devices and digest first, then what the custom calls need, then native code."""
        problem = misplaced(record.requires, devices)
        if problem:
            msg = f"{record}: {problem}\n{problem.remedy}"
            raise AotbuildError(msg)
        with self._stats.loading():
            data = read_blob(self._source, record.blob)
            if any(call.provider == "lapack" for call in record.requires.custom_calls):
                with _explained(record, "initialize LAPACK's kernels", _LAPACK_REMEDY):
                    self._engine.initialize_lapack()
            with _explained(record, "load the executable", _REMEDY):
                return self._engine.deserialize(data, devices)


@contextmanager
def _explained(record: Record, what: str, remedy: str) -> Iterator[None]:
    """Raise an AotbuildError for whatever jaxlib raises: RuntimeError, ValueError and its own."""
    try:
        yield
    except Exception as err:
        found = f"{type(err).__name__}: {err}"
        msg = f"{record}: jaxlib could not {what}\n  found    {found}\n{remedy}"
        raise AotbuildError(msg) from err
