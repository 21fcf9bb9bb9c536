"""Preloading: executables are loaded before they are called, and run once on zeros if asked.

Threads help: jaxlib releases the GIL while it deserializes and runs, and hashlib while it hashes.
Two threads were seen at work at once on 0.10.2 (in XLA's own threads) and on 0.12.0.1.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypeAlias

from aotbuild.errors import AotbuildError
from aotbuild.format.record import Record
from aotbuild.runtime.buffers import give_back
from aotbuild.runtime.concurrency import parallel_map
from aotbuild.runtime.devices import shortage
from aotbuild.runtime.fitting import Selected, fitting
from aotbuild.runtime.loader import Loader
from aotbuild.runtime.package import Stats
from aotbuild.runtime.readiness import Expected, Progress, Readiness, require

if TYPE_CHECKING:
    from aotbuild.runtime.backend import Executable
    from aotbuild.runtime.devices import DeviceSet
    from aotbuild.runtime.kernel import Kernel
    from aotbuild.runtime.preloading import Preloading
    from aotbuild.runtime.state import LibraryState

# An executable and its outputs for zeros.
Run: TypeAlias = tuple[Selected, Any, list[Any]]

# An executable that could not be loaded or run, and why.
Failure: TypeAlias = tuple[Selected, AotbuildError]

# Called with (record, executable, its outputs) for each executable that was run.
Prime: TypeAlias = Callable[[Record, Any, list[Any]], None]

# Gives another thread the settings of the calling one.
Settings: TypeAlias = Callable[[], AbstractContextManager[None]]

# Two programs that start in different orders on the devices of a mesh deadlock.
_MESHES = threading.RLock()
_REMEDY = "Leave its function out: name the others, preload('this', 'that', prime=True)."


@dataclass(frozen=True)
class _Done:
    """The result for executables of the same bytes: whether these were new, and what ran.

    `left` are those that the calling thread runs.
    """

    items: Sequence[Selected]
    is_new: bool
    ran: tuple[Run, ...]
    left: tuple[tuple[Selected, Executable], ...]
    failures: tuple[Failure, ...]


def preload_functions(
    state: LibraryState,
    devices: DeviceSet | None,
    names: Sequence[str],
    kernels: Mapping[str, Kernel] | None,
    threads: int | None,
    *,
    required: bool,
    once: bool,
    wait: bool,
) -> int | Preloading:
    """Load what fits of some functions, as `Library.preload` says; prime `kernels` if given."""
    backend, settings = state.backend, state.backend.settings()
    devices = devices or backend.default_devices()
    found = fitting(state.package, backend, devices, names)
    if required:
        require(found, state.package.absent)
    prime = _prime_kernels(kernels) if kernels is not None else None

    def work(goes_on: Callable[[], bool] | None = None) -> int:
        return preload(
            *(state.loader, found.selected, state.stats, threads, prime),
            progress=state.progress,
            once=once,
            settings=settings,
            goes_on=goes_on,
        )

    def in_thread(goes_on: Callable[[], bool]) -> int:
        with settings():
            return work(goes_on)

    # Before a thread starts: `ready` tells what it has still to do.
    state.progress.begin(found.selected)
    return work() if wait else state.in_background(in_thread)


def check_options(prime: object, threads: object) -> None:
    """Raise AotbuildError if an option of `Library.preload` has a value that means nothing."""
    if not isinstance(prime, bool) and prime != "once":
        msg = f"preload(prime=…): expected True, False or 'once', found {prime!r}"
        raise AotbuildError(msg)
    is_count = isinstance(threads, int) and not isinstance(threads, bool) and threads >= 1
    if threads is not None and not is_count:
        msg = (
            f"preload(threads=…): expected a whole number of at least 1, or None, found {threads!r}"
        )
        raise AotbuildError(msg)


def ready(state: LibraryState, devices: DeviceSet | None, names: Sequence[str]) -> Readiness:
    """Return what some functions need on these devices, or on the default ones, and have."""
    package, backend = state.package, state.backend
    devices = devices or backend.default_devices()
    expected = state.expected.get(
        (tuple(names), devices, package.probe(devices)),
        lambda: Expected(fitting(package, backend, devices, names)),
    )
    return expected.look(state.loader, state.progress)


def _prime_kernels(kernels: Mapping[str, Kernel]) -> Prime:
    def prime(record: Record, executable: Executable, outputs: list[Any]) -> None:
        kernels[record.function].prime(record, executable, outputs)

    return prime


def preload(
    loader: Loader,
    selected: Iterable[Selected],
    stats: Stats,
    threads: int | None,
    prime: Prime | None,
    *,
    progress: Progress | None = None,
    once: bool = False,
    settings: Settings = nullcontext,
    goes_on: Callable[[], bool] | None = None,
) -> int:
    """Load executables; return how many had not been loaded before.

    With `prime`, each is run on zeros, and `prime` is called in the calling thread. That thread
    runs the largest itself, or all of them if `once`. With `goes_on`, it will serve no calls: it
    runs none but for `once`, and begins no other executable once `goes_on` returns False.
    `settings` is entered in each thread. `progress` is told what is done. If some fail, the others
    are still loaded, and one AotbuildError at the end holds all failures.
    """
    selected, progress = list(selected), progress or Progress()
    here = _run_by_caller(selected, once, waits=goes_on is None) if prime else None

    def load(group: Sequence[Selected]) -> _Done:
        with settings():
            return _load(loader, group if not goes_on or goes_on() else [], stats, here)

    failures: list[AotbuildError] = []
    count = 0
    try:
        for done in parallel_map(load, _by_bytes(selected), threads or _cpu_count()):
            count += done.is_new
            for item, failure in (
                *done.failures,
                *(_prime_all(prime, done, stats) if prime else ()),
            ):
                failures.append(failure)
                progress.fail(item, failure)
            progress.end(done.items)
            del done
    finally:
        progress.end(selected)
    if once:
        give_back()
    if failures:
        raise _joined(failures)
    return count


def _run_by_caller(selected: Sequence[Selected], once: bool, waits: bool) -> Callable[[Any], bool]:
    """Return which executables the calling thread runs, and not those that load.

    glibc gives each thread a heap of its own. What the calling thread runs makes that heap grow, so
    one run is as good for later calls as many: the largest. One after another take no more memory
    than one.
    """
    if once:
        return lambda _: True
    largest = max((item for item in selected if item.runs), key=_size, default=None)
    return lambda item: waits and item is largest


def _size(item: Selected) -> int:
    return sum(math.prod(aval.shape) for aval in item.record.signature.leaves)


def _by_bytes(selected: Iterable[Selected]) -> list[list[Selected]]:
    groups: dict[Any, list[Selected]] = {}
    for item in selected:
        groups.setdefault((item.record.blob.sha256, item.placement.devices), []).append(item)
    return list(groups.values())


def _load(
    loader: Loader, group: Sequence[Selected], stats: Stats, here: Callable[[Any], bool] | None
) -> _Done:
    """Load executables of the same bytes and devices. Run those that `here` leaves, if given."""
    ran: list[Run] = []
    left: list[tuple[Selected, Executable]] = []
    failures: list[Failure] = []
    is_new = False
    for item in group:
        try:
            is_new |= loader.load_bytes(item.record, item.placement.devices)
            executable = loader.load(item.verdict, item.placement)
            if here is None or not item.runs:
                continue
            if here(item):
                left.append((item, executable))
            else:
                ran.append((item, executable, _run(item, executable, stats)))
        except AotbuildError as err:
            failures.append((item, err))
    return _Done(group, is_new, tuple(ran), tuple(left), tuple(failures))


def _run(item: Selected, executable: Executable, stats: Stats) -> list[Any]:
    record, device = item.record, item.placement.devices[0]
    try:
        with _alone(record):
            start = perf_counter()
            outputs = executable.run_on_zeros()
    except Exception as err:  # XlaRuntimeError, FloatingPointError of jax_debug_nans, MemoryError …
        raise shortage(record, device, err) or _on_zeros(record, err) from err
    stats.primed(perf_counter() - start)
    return outputs


def _alone(record: Record) -> AbstractContextManager[Any]:
    return _MESHES if record.requires.devices > 1 else nullcontext()


def _on_zeros(record: Record, err: Exception) -> AotbuildError:
    found = f"{type(err).__name__}: {err}"
    return AotbuildError(f"{record}: it cannot be run on zeros\n  found    {found}\n{_REMEDY}")


def _prime_all(prime: Prime, done: _Done, stats: Stats) -> Iterator[Failure]:
    for item, executable, outputs in done.ran:
        yield from _prime(prime, item, executable, outputs)
    for item, executable in done.left:
        try:
            outputs = _run(item, executable, stats)
        except AotbuildError as err:
            yield item, err
        else:
            yield from _prime(prime, item, executable, outputs)
            del outputs


def _prime(
    prime: Prime, item: Selected, executable: Executable, outputs: list[Any]
) -> Iterator[Failure]:
    try:
        with _alone(item.record):
            prime(item.record, executable, outputs)
    except AotbuildError as err:
        yield item, err
    except Exception as err:  # noqa: BLE001 - raised at the end
        yield item, _on_zeros(item.record, err)


def _joined(failures: Sequence[AotbuildError]) -> AotbuildError:
    if len(failures) == 1:
        return failures[0]
    lines = [f"- {err}".replace("\n", "\n  ") for err in failures]
    title = f"{len(failures)} executables could not be preloaded; the others are ready"
    error = AotbuildError("\n".join([title, *lines]))
    error.__cause__ = failures[0]
    return error


def _cpu_count() -> int:
    """Return the number of CPUs that this process may run on."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # macOS
        return os.cpu_count() or 1
