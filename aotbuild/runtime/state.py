"""What a library and its views on chosen devices share; each part is made at its first use."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, NoReturn
from weakref import ref

from aotbuild.errors import UnknownFunction
from aotbuild.format.index import COMPANIONS, SOURCES, Index
from aotbuild.format.signature import Function
from aotbuild.runtime.concurrency import SingleFlight
from aotbuild.runtime.observers import Watch, emit, is_logged, listeners, watches
from aotbuild.runtime.package import OpenedPackage, Package, Stats, left_out
from aotbuild.runtime.source import DirectorySource, Source, open_index

if TYPE_CHECKING:
    from aotbuild.platforms.base import Host
    from aotbuild.runtime.backend import Backend
    from aotbuild.runtime.call_counts import CallCounts
    from aotbuild.runtime.devices import DeviceSet
    from aotbuild.runtime.loader import Loader
    from aotbuild.runtime.preloading import Preloading, Work
    from aotbuild.runtime.readiness import Expected, Progress

_COUNT_CALLS = "AOTBUILD_COUNT_CALLS"


class Counting:
    """The kernels of one library, whose calls may be counted or watched.

    It does not keep them alive.
    """

    def __init__(self, stats: Stats) -> None:
        self._stats = stats
        self._kernels: list[ref[Any]] = []
        self._counts: CallCounts | None = None
        # Called when kernels are called in another way: decorated functions look again.
        self.on_change: list[Callable[[], None]] = []

    def add(self, kernel: Any) -> None:
        """Note a new kernel, and count or watch its calls if others are."""
        self._kernels.append(ref(kernel, self._kernels.remove))
        for watch in watches:
            kernel.watch_by(watch)
        if self._counts or os.environ.get(_COUNT_CALLS) == "1":
            kernel.count_by(self._start())

    def start(self) -> None:
        """Count calls by signature from now on, those of kernels that exist, too."""
        counts = self._start()
        self._change(lambda kernel: kernel.count_by(counts))

    def watch(self, watch: Watch | None) -> None:
        """Have the calls of all kernels watched from now on; by nobody if it is None."""
        self._change(lambda kernel: kernel.watch_by(watch))

    def _change(self, change: Callable[[Any], None]) -> None:
        for kernel in filter(None, [made() for made in [*self._kernels]]):
            change(kernel)
        for look_again in [*self.on_change]:
            look_again()

    def _start(self) -> CallCounts:
        from aotbuild.runtime.call_counts import CallCounts

        self._counts = self._counts or CallCounts()
        self._stats.calls = self._counts.to_dict
        return self._counts


@dataclass(frozen=True)
class LibraryState:
    """One opened package: its parts, backend and loader, which are the same for all views.

    The first seven fields are those of `Library`; `asked` is the package name that was asked for.
    `views` are the libraries on chosen devices, by device set. `views_by_argument` has the same
    libraries by the argument of `on`, so that `on` in a loop costs one lookup. `expected` is what
    `ready` has judged, by functions, devices and host. `described` are the sizes of dims that were
    read, by function.
    """

    source: Source
    fallback: str | None
    asked: str | None
    probe: Callable[[DeviceSet], Host] | None
    arrays: str
    copies: bool = False
    stats: Stats = field(default_factory=Stats)
    views: SingleFlight[Any] = field(default_factory=SingleFlight)
    views_by_argument: dict[Any, Any] = field(default_factory=dict)
    expected: SingleFlight[Expected] = field(default_factory=SingleFlight)
    described: SingleFlight[Any] = field(default_factory=SingleFlight)
    _made: SingleFlight[Any] = field(default_factory=SingleFlight)
    _preloads: dict[Preloading, None] = field(default_factory=dict)

    @property
    def opened(self) -> OpenedPackage:
        """The package with its companions; raises what is wrong with the index."""
        made: OpenedPackage = self._made.get("opened", self._open)
        return made

    @property
    def index(self) -> Index:
        """The index of the package and its companions; raises what is wrong with it."""
        return self.opened.index

    @property
    def version(self) -> str | None:
        """The version of the distribution that the package belongs to, if there is one."""
        made: str | None = self._made.get("version", self._find_version)
        return made

    @property
    def name(self) -> str:
        """The name of the package, or its place if the index names none."""
        return str(self.index.header.get("package", self.source.place))

    def function(self, name: str) -> Function:
        """Return a function of the package; raises UnknownFunction."""
        found = self.index.function(name) if isinstance(name, str) else None
        return found if found is not None else _unknown(self, name)

    def chosen(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return the names of functions, each once; raises UnknownFunction."""
        return tuple(dict.fromkeys(self.function(name).name for name in names))

    @property
    def policy(self) -> str | None:
        """The fallback policy of the caller, or of the index."""
        return self.fallback or self.index.header.get("fallback")

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
    def package(self) -> Package:
        """The data that all kernels share. Its first use imports what the backend imports."""
        made: Package = self._made.get("package", self._make_package)
        return made

    @property
    def progress(self) -> Progress:
        """What preloads have begun, and what failed."""
        made: Progress = self._made.get("progress", _make_progress)
        return made

    def in_background(self, work: Work) -> Preloading:
        """Start `work` in a thread, which `close` stops."""
        from aotbuild.runtime.preloading import Preloading

        for ended in [preloading for preloading in [*self._preloads] if preloading.done]:
            self._preloads.pop(ended, None)
        self._preloads[preloading := Preloading(work)] = None
        return preloading

    def close(self) -> None:
        """Stop preloading, drop what was loaded and close the source."""
        for preloading in [*self._preloads]:
            preloading.stop()
            self._preloads.pop(preloading, None)
        self.views.clear()
        self.views_by_argument.clear()
        self.expected.clear()
        if "loader" in self._made:
            self.loader.clear()
        source = self.opened.source if "opened" in self._made else self.source
        source.close()

    def _open(self) -> OpenedPackage:
        start = perf_counter()
        opened = self._open_parts()
        _log(opened)
        if SOURCES in opened.index.header and _is_of_a_project(self.source):
            from aotbuild.runtime.stale import warn_if_stale

            warn_if_stale(self.source.place, opened.index.header)
        if listeners:
            from aotbuild.runtime.events import Opened

            name = str(opened.index.header.get("package", self.source.place))
            seconds, digest = perf_counter() - start, opened.index.digest
            emit(Opened(name, str(self.source.place), self.arrays, seconds, digest))
        return opened

    def _open_parts(self) -> OpenedPackage:
        index = open_index(self.source)
        if COMPANIONS not in index.header:
            return OpenedPackage(self.source, index)
        from aotbuild.runtime.companions import open_parts

        parts = open_parts(self.source, index, self.asked)
        return OpenedPackage(parts.source, parts.index, parts.companions, parts.absent)

    def _find_version(self) -> str | None:
        from aotbuild.runtime.identity import distribution_of

        found = distribution_of(self.opened)
        return None if found is None else found.version

    def _make_backend(self) -> Backend:
        if self.arrays == "jax":
            from aotbuild.runtime.jax.backend import JaxBackend

            return JaxBackend(self.opened.source, self.stats)
        from aotbuild.runtime.numpy.backend import NumpyBackend

        return NumpyBackend()

    def _make_loader(self) -> Loader:
        from aotbuild.runtime.loader import Loader

        return Loader(self.opened.source, self.stats, self.backend.executable_loader, self.name)

    @property
    def counting(self) -> Counting:
        """The kernels of all views, and whether their calls are counted."""
        made: Counting = self._made.get("counting", lambda: Counting(self.stats))
        return made

    def _make_package(self) -> Package:
        return Package(
            name=self.name,
            index=self.index,
            stats=self.stats,
            probe=self.probe or self.backend.probe,
            fallback=self.policy,
            absent=self.opened.absent,
            on_kernel=self.counting.add,
            copies=self.copies,
        )


def _make_progress() -> Progress:
    from aotbuild.runtime.readiness import Progress  # few processes preload

    return Progress()


def _unknown(state: LibraryState, name: str) -> NoReturn:
    from difflib import get_close_matches

    functions = tuple(sorted(function.name for function in state.index.functions()))
    failed = left_out(state.index).lines(name)
    is_text = isinstance(name, str)  # a list of names is a likely mistake
    close = get_close_matches(name, functions, 1) if is_text and not failed else []
    hint = f" (did you mean {close[0]!r}?)" if close else ""
    raise UnknownFunction(state.name, name, functions, hint, failed)


def _log(opened: OpenedPackage) -> None:
    """Log what was opened, in one line at level INFO."""
    if is_logged("info"):
        from aotbuild.runtime.identity import log_opened

        log_opened(opened)


def _is_of_a_project(source: Source) -> bool:
    """Return whether executables may be older than the source: not where a wheel was installed."""
    return isinstance(source, DirectorySource) and not (
        "-packages" in source.place and Path(source.place, "..", "__init__.py").exists()
    )
