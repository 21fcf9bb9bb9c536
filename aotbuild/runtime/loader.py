"""The loader: from a record to an executable, each loaded once for each placement and shared.

The order of checks is the same for every backend: verdict, devices, digest, custom calls. Only
then does native code see a byte.
"""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING, Any

from aotbuild.errors import AotbuildError
from aotbuild.format.record import Record
from aotbuild.runtime.concurrency import SingleFlight, Stats, refuse_if_forked
from aotbuild.runtime.devices import find_problem, shortage
from aotbuild.runtime.select import REGISTER
from aotbuild.runtime.source import Source, read_blob

if TYPE_CHECKING:
    from aotbuild.runtime.backend import Executable, ExecutableLoader, Placement
    from aotbuild.runtime.constants import Constants

_REMEDY = "Rebuild the wheel with the jaxlib that is installed."
# What XLA says of a custom call that nobody registered, on jaxlib 0.10.2 and 0.12.0.1.
_UNREGISTERED = ("No FFI handler registered for ", "No registered implementation for ")


class Loader:
    """Loads the executables and constants of one package; `backend` does the last step."""

    def __init__(self, source: Source, stats: Stats, backend: ExecutableLoader) -> None:
        self._source = source
        self._stats = stats
        self._backend = backend
        self._loaded: SingleFlight[Any] = SingleFlight()
        self._constants: SingleFlight[Constants] = SingleFlight()
        self._executables: SingleFlight[Executable] = SingleFlight()

    def load(self, record: Record, placement: Placement) -> Executable:
        """Return the executable of a record that fits, loaded into a placement.

        AotbuildError if the process was forked, or if jaxlib cannot load it; DamagedBlob if its
        bytes are not those that were built.
        """
        refuse_if_forked(record)
        key = (record.function, record.signature.key(), record.blob.sha256, placement)
        return self._executables.get(key, lambda: self._make(record, placement))

    def load_bytes(self, record: Record, devices: tuple[Any, ...]) -> bool:
        """Load the bytes and constants of a record onto devices; return whether that was new."""
        refuse_if_forked(record)
        is_new = _key(record, devices) not in self._loaded
        self._load(record, devices)
        return is_new

    def clear(self) -> None:
        """Drop everything that was loaded."""
        for cache in (self._loaded, self._constants, self._executables):
            cache.clear()

    def _make(self, record: Record, placement: Placement) -> Executable:
        loaded, constants = self._load(record, placement.devices)
        return self._backend.executable(record, loaded, constants, placement)

    def _load(self, record: Record, devices: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
        """Return the XLA executable of a record and its constants, which are read meanwhile."""
        needed = record.calling.constants
        load = lambda: self._read_and_load(record, devices)  # noqa: E731
        key = _key(record, devices)
        if not needed:
            return self._loaded.get(key, load), ()
        constants = self._constants.get("constants", self._make_constants)
        with constants.read_ahead(needed):
            loaded = self._loaded.get(key, load)
            places = self._backend.constant_places(record, loaded, devices)
            try:
                return loaded, constants.put(needed, places)
            except Exception as err:  # jaxlib raises RuntimeError, ValueError and its own
                found = shortage(record, devices[0], err)
                if found is None:
                    raise
                raise found from err

    def _make_constants(self) -> Constants:
        from aotbuild.runtime.constants import Blobs, Constants  # many records have none

        return Constants(Blobs(self._source), self._backend.physical, self._backend.put)

    def _read_and_load(self, record: Record, devices: tuple[Any, ...]) -> Any:
        problem = find_problem(record.requires, devices)
        if problem:
            msg = f"{record}: {problem}\n{problem.remedy}"
            raise AotbuildError(msg)
        start = perf_counter()
        data = read_blob(self._source, record.blob)
        if record.requires.custom_calls:
            from aotbuild.runtime import custom_calls

            custom_calls.register(record, self._backend)
        callbacks = self._backend.bind(record) if record.calling.callbacks else ()
        try:
            loaded = self._backend.deserialize(data, devices, callbacks)
        except Exception as err:  # jaxlib raises RuntimeError, ValueError and its own
            found = f"{type(err).__name__}: {err}"
            what, remedy = "jaxlib could not load the executable", _REMEDY
            if any(text in found for text in _UNREGISTERED):
                what, remedy = "it calls what is not registered", f"{REGISTER.capitalize()}."
            msg = f"{record}: {what}\n  found    {found}\n{remedy}"
            raise shortage(record, devices[0], err) or AotbuildError(msg) from err
        self._stats.loaded(perf_counter() - start)
        return loaded


def _key(record: Record, devices: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return what decides what is loaded: equal bytes may call back other functions."""
    own = (record.function, record.signature.key()) if record.calling.callbacks else ()
    return (record.blob.sha256, devices, own)
