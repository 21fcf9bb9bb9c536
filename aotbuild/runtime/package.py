"""One opened package: its index, backend, counters and fallback policy, and its loader.

All kernels of a library share it, and so do its views on chosen devices. The order of checks is the
same for every backend: verdict, devices, digest, custom calls. Only then does
native code see a byte.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Any, NoReturn

from aotbuild.errors import AotbuildError, MissingJax, NoExecutable, UnknownFunction
from aotbuild.format.index import COMPANIONS, EDITABLE, SOURCES, Index
from aotbuild.format.record import Record
from aotbuild.format.signature import Function
from aotbuild.format.target import HOST
from aotbuild.platforms.base import find_part, machine
from aotbuild.runtime.checked_blobs import Source, open_index, read_blob
from aotbuild.runtime.concurrency import SingleFlight, Stats, refuse_if_forked, watch_forks
from aotbuild.runtime.devices import find_problem, shortage

if TYPE_CHECKING:
    from aotbuild.platforms.base import Host
    from aotbuild.runtime.backend import Backend, Executable, ExecutableLoader, Placement
    from aotbuild.runtime.constants import Constants
    from aotbuild.runtime.devices import DeviceSet

EDITABLE_NOTE = "%s is an editable install without executables: calls go to the source"
_REMEDY = "Rebuild the wheel with the jaxlib that is installed."
_OLDER = "Use a CPU that has them, or a wheel that was built with jax 0.11.2 or older."
_CALLS = "its executable has custom calls that are not registered"
_REGISTER = "Import the package that registers these custom calls first."
# What XLA says of a custom call that nobody registered, on jaxlib 0.10.2 and 0.12.0.1.
UNREGISTERED = ("No FFI handler registered for ", "No registered implementation for ")


@dataclass(frozen=True)
class _Opened:
    """The source and the index of a package with its companions; a line for each absent one."""

    source: Source
    index: Index
    absent: tuple[str, ...]


class Package:
    """One package; each part of it is made at its first use.

    `find` locates its source. `asked` is the name that was asked for, None for a path. `fallback`
    is the caller's policy, None for that of the index. `probe` replaces the backend's probe of some
    devices; tests pass a fake.
    """

    def __init__(
        self,
        find: Callable[[], Source],
        *,
        asked: str | None = None,
        fallback: str | None = None,
        arrays: str = "jax",
        probe: Callable[[DeviceSet], Host] | None = None,
    ) -> None:
        self._find = find
        self.asked = asked
        self.arrays = arrays
        self.stats = Stats()
        self._fallback = fallback
        self._probe = probe
        self._made: SingleFlight[Any] = SingleFlight()

    @property
    def source(self) -> Source:
        """Where its files are; raises what locating the package raises."""
        made: Source = self._made.get("source", self._find)
        return made

    @property
    def is_open(self) -> bool:
        """Whether its index was read."""
        return "opened" in self._made

    @property
    def index(self) -> Index:
        """The index of the package and its companions; raises what is wrong with it."""
        return self._opened.index

    @property
    def absent(self) -> tuple[str, ...]:
        """A line for errors about each companion that is not installed."""
        return self._opened.absent

    @property
    def _opened(self) -> _Opened:
        made: _Opened = self._made.get("opened", self._open)
        return made

    @property
    def name(self) -> str:
        """The name of the package, or its place if the index names none."""
        return str(self.index.header.get("package", self.source.path))

    @property
    def backend(self) -> Backend:
        """The backend. Its first use imports jax, or numpy and jaxlib."""
        made: Backend = self._made.get("backend", self._make_backend)
        return made

    @property
    def loader(self) -> Loader:
        """The loader. Its first use imports what the backend imports."""
        made: Loader = self._made.get("loader", self._make_loader)
        return made

    @property
    def editable(self) -> dict[str, Any]:
        """What `jax.jit` is told of each function of an editable install; else empty."""
        found: dict[str, Any] = self.index.header.get(EDITABLE, {})
        return found

    @property
    def editable_note(self) -> str:
        """What is said of an editable install; empty for others."""
        return EDITABLE_NOTE % self.name if self.editable else ""

    @property
    def fallback_policy(self) -> str:
        """The fallback policy in force now."""
        from aotbuild.runtime.fallback_policy import fallback_policy  # most calls need none

        return fallback_policy(self._fallback or self.index.header.get("fallback"))

    def probe(self, devices: DeviceSet) -> Host:
        """Return the host's facts for some devices."""
        return (self._probe or self.backend.probe)(devices)

    def function(self, name: str) -> Function:
        """Return a function of the package; raises UnknownFunction."""
        found = self.index.function(name) if isinstance(name, str) else None
        return found if found is not None else self._unknown(name)

    def close(self) -> None:
        """Drop what was loaded and close the source."""
        if "loader" in self._made:
            self.loader.clear()
        if self.is_open:
            self._opened.source.close()

    def _open(self) -> _Opened:
        index = open_index(self.source)
        self._begin(index.header)
        if COMPANIONS not in index.header:
            return _Opened(self.source, index, ())
        from aotbuild.runtime import companions  # few packages were split

        found = companions.find(self.source, index, self.asked)
        joined = companions.join(self.source, index, found)
        return _Opened(*joined, tuple(filter(None, (each.absence for each in found))))

    def _begin(self, header: Mapping[str, Any]) -> None:
        """Refuse what cannot be called here, log an editable install, and watch for forks."""
        name = str(header.get("package", self.source.path))
        # A build imports the edited modules, and these may load what the last one left.
        if SOURCES in header and os.environ.get("AOTBUILD_BUILDING") != "1":
            from aotbuild.format.layout import source_problem  # few are built in source folders

            if problem := source_problem(header, self.source.path):
                raise AotbuildError(problem)
        if header.get(EDITABLE):
            from aotbuild.runtime.log import log

            if self.arrays != "jax":
                msg = (
                    f"{name} is an editable install without executables, and "
                    f'load(…, arrays="{self.arrays}") calls executables only. Install its '
                    "wheel (`pip wheel .`), run `aotbuild build --in-place`, or load it with jax."
                )
                raise AotbuildError(msg)
            log("warning", "editable", EDITABLE_NOTE % name, package=name)
        if self.arrays == "jax":
            from importlib.util import find_spec

            from aotbuild.runtime.jax.clients import clients

            if find_spec("jax") is None:
                raise MissingJax(name, str(header.get("jax", "")))
            # From now on, not from the first kernel: jax's own user may start XLA's threads.
            watch_forks(clients)

    def _make_backend(self) -> Backend:
        """Judge jaxlib's version before anything private or native of it is imported."""
        try:
            from jaxlib.version import __version__ as found  # a text; nothing native is loaded
        except ImportError:
            found = "none"
        here, checks = machine(), find_part(HOST, "checks")
        if missing := checks.missing_for_jaxlib(found, here.architecture, here.features):
            reason = f"jaxlib {found} needs {', '.join(missing)}, which this CPU lacks"
            raise NoExecutable(self.name, "no executable may run here", [reason], _OLDER)
        expected = str(self.index.header.get("jaxlib", found))
        is_other = found not in expected.split(", ")
        if self.arrays != "jax":
            if is_other:
                raise _other_jaxlib(self.name, expected, found)
            from aotbuild.runtime.numpy.backend import NumpyBackend

            return NumpyBackend()
        try:
            from aotbuild.runtime.jax.backend import JaxBackend
        except (ImportError, AttributeError) as err:
            if not is_other:
                raise
            raise _other_jaxlib(self.name, expected, found) from err
        # With another jaxlib, calls in transformations and fallbacks still run.
        return JaxBackend(self._opened.source, self.stats)

    def _make_loader(self) -> Loader:
        return Loader(self._opened.source, self.stats, self.backend.executable_loader)

    def _unknown(self, name: str) -> NoReturn:
        from difflib import get_close_matches

        functions = tuple(sorted(function.name for function in self.index.functions()))
        is_text = isinstance(name, str)  # a list of names is a likely mistake
        close = get_close_matches(name, functions, 1) if is_text else []
        hint = f" (did you mean {close[0]!r}?)" if close else ""
        raise UnknownFunction(self.name, name, functions, hint)


def _other_jaxlib(package: str, expected: str, found: str) -> NoExecutable:
    versions = expected.split(", ")
    remedy = (
        f"Install jaxlib=={' or jaxlib=='.join(versions)}, or a wheel of {package} that was built "
        "with the jaxlib that is installed."
    )
    trace = [f"jaxlib: expected {' or '.join(versions)}, found {found}"]
    return NoExecutable(package, "no executable may run here", trace, remedy)


# --- loading ------------------------------------------------------------------------------------


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

        AotbuildError if the process was forked, or if jaxlib cannot load it; NoExecutable if it
        calls what is not registered; DamagedBlob if its bytes are not those that were built.
        """
        refuse_if_forked(record)

        def make() -> Executable:
            loaded, constants = self._load_parts(record, placement.devices)
            return self._backend.executable(record, loaded, constants, placement)

        key = (record.function, record.signature.key(), record.blob.sha256, placement)
        return self._executables.get(key, make)

    def preload(self, record: Record, devices: tuple[Any, ...]) -> bool:
        """Load the bytes and constants of a record onto devices; return whether that was new."""
        refuse_if_forked(record)
        is_new = (record.blob.sha256, devices) not in self._loaded
        self._load_parts(record, devices)
        return is_new

    def clear(self) -> None:
        """Drop everything that was loaded."""
        for cache in (self._loaded, self._constants, self._executables):
            cache.clear()

    def _load_parts(self, record: Record, devices: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
        """Return the XLA executable of a record and its constants, which are read meanwhile."""
        key, needed = (record.blob.sha256, devices), record.calling.constants
        load = lambda: self._read_and_load(record, devices)  # noqa: E731
        if not needed:
            return self._loaded.get(key, load), ()
        from aotbuild.runtime.constants import Constants  # many records have none

        make = lambda: Constants(self._source, self._backend.physical, self._backend.put)  # noqa: E731
        constants = self._constants.get("constants", make)
        with constants.read_ahead(needed):
            loaded = self._loaded.get(key, load)
            destinations = self._backend.constant_destinations(record, loaded, devices)
            try:
                return loaded, constants.put(needed, destinations)
            except Exception as err:  # jaxlib raises RuntimeError, ValueError and its own
                found = shortage(record, devices[0], err)
                if found is None:
                    raise
                raise found from err

    def _read_and_load(self, record: Record, devices: tuple[Any, ...]) -> Any:
        problem = find_problem(record.requires, devices)
        if problem:
            msg = f"{record}: {problem}\n{problem.remedy}"
            raise AotbuildError(msg)
        start = perf_counter()
        data = read_blob(self._source, record.blob)
        if record.requires.custom_calls or record.requires.imports:
            from aotbuild.runtime import custom_calls

            custom_calls.register(record, self._backend)
        try:
            loaded = self._backend.deserialize(data, devices)
        except Exception as err:  # jaxlib raises RuntimeError, ValueError and its own
            found = f"{type(err).__name__}: {err}"
            if any(text in found for text in UNREGISTERED):
                trace = [f"{record}: REFUSED: {found}"]
                raise NoExecutable(record.function, _CALLS, trace, _REGISTER) from err
            msg = f"{record}: jaxlib could not load the executable\n  found    {found}\n{_REMEDY}"
            raise shortage(record, devices[0], err) or AotbuildError(msg) from err
        self._stats.loaded(perf_counter() - start)
        return loaded
