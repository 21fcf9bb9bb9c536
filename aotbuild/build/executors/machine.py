"""What runs on a worker machine: one attempt at a job, plain data in and plain data out.

A process that runs several attempts keeps its compiler processes for the next one of the same
build, and ends them when it has had nothing to do for a while.
"""

from __future__ import annotations

import atexit
import os
import re
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from aotbuild.build.attempt import Request, run_attempt
from aotbuild.build.executors.bundle import unpacked
from aotbuild.build.executors.packet import outcome_to_json, read_request
from aotbuild.build.pool import WorkerPool, usable_cpus
from aotbuild.build.protocol import to_line
from aotbuild.build.replies import Busy, CompileStarted, Entries, Reply
from aotbuild.build.requests import Hello
from aotbuild.errors import AotbuildError
from aotbuild.format.canonical import canonical_json, sha256_hex
from aotbuild.format.temporary import temporary_folder
from aotbuild.store.file_digests import DIGESTS
from aotbuild.store.folder import Folder
from aotbuild.store.layers import Layers, open_store
from aotbuild.toolchains.exact import ExactToolchain
from aotbuild.toolchains.toolchain import Toolchain

# Compiler processes end after so many seconds without a job.
IDLE = 60.0
# Compiler processes of one build in one process, of which the executor lets a few work at a time.
# Attempts come in any order, and those of other settings need another one.
_MOST = 8
_DIGEST = re.compile(r"[0-9a-f]{64}")


def run_packet(
    packet: dict[str, Any],
    bundle: bytes | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """Run the attempt of a packet on this machine, and return its answer (`executors.packet`).

    `bundle` is the project's source; it may be missing where this machine already has it, or finds
    it in the packet's `bundle_file`. `say` gets what is done now, for people.
    """
    try:
        if refused := _refused(packet):
            return {"refused": refused}
        file = packet["bundle_file"]
        data = bundle if bundle is not None or file is None else Path(file).read_bytes()
        root = unpacked(packet["bundle"], data)
        if root is None:
            return {"lacks": packet["bundle"]}
        request = read_request(packet, _toolchain(packet["toolchain"], root, say))
        with _at_work(packet, root) as site:
            return _answer(site, request, frozenset(packet["have"]), say)
    except Exception as err:  # noqa: BLE001 (of this machine: the build tries another one)
        named = isinstance(err, (AotbuildError, OSError))
        text = str(err) if named else f"{type(err).__name__}: {err}"
        return {"failed": text, "machine": socket.gethostname()}


def receive_bundle(digest: str, data: bytes) -> None:
    """Unpack a project's source on this machine, before a packet needs it."""
    unpacked(digest, data)


def _refused(packet: dict[str, Any]) -> str | None:
    found, expected = metadata.version("aotbuild"), packet["aotbuild"]
    if found == expected:
        return None
    return (
        f"{socket.gethostname()} has aotbuild {found} in {sys.prefix}, expected {expected}, as on "
        f"the build machine; install aotbuild[build]=={expected} there"
    )


def _answer(
    site: _Site, request: Request, have: frozenset[str], say: Callable[[str], None]
) -> dict[str, Any]:
    started = time.monotonic()
    messages: list[tuple[float, Reply]] = []

    def tell(message: Reply, _: float | None = None) -> None:
        messages.append((time.monotonic() - started, message))
        if isinstance(message, Busy):
            say(message.doing)
        elif isinstance(message, CompileStarted):
            say(f"compiling {request.job.label} for {message.target}")

    outcome = run_attempt(site.pool, request, tell)
    lines = [(at, to_line(message)) for at, message in messages]
    found = [message for _, message in messages if isinstance(message, Entries)]
    entries = _entries(site.front, {key for each in found for key in (*each.made, *each.used)})
    return {
        "messages": lines,
        "outcome": outcome_to_json(outcome),
        "machine": socket.gethostname(),
        "root": str(site.root),
        "entries": entries,
        "blobs": _blobs(site.blobs, [line for _, line in lines], entries, have),
    }


def _entries(front: Path, keys: Iterable[str]) -> dict[str, bytes]:
    folder = Folder(front)
    found = ((key, folder.read(key)) for key in sorted(keys))
    return {key: raw for key, raw in found if raw is not None}


def _blobs(
    folder: Path, lines: list[str], entries: dict[str, bytes], have: frozenset[str]
) -> dict[str, Any]:
    """Return the blobs whose digests messages name, by file name; without those the build has."""
    named = {digest for line in lines for digest in _DIGEST.findall(line)}
    places = sorted((folder / "blobs").glob("*"))
    wanted = (path for path in places if path.name.partition(".")[0] in named)
    return {p.name: _once(p.read_bytes(), entries) for p in wanted if p.name not in have}


def _once(data: bytes, entries: dict[str, bytes]) -> Any:
    """Return bytes, or where they are in the file of an entry: most executables are in both."""
    return next(([key, len(data)] for key, raw in entries.items() if raw.endswith(data)), data)


# --- what a process keeps -------------------------------------------------------------------------


@dataclass(eq=False)
class _Site:
    """One build on this machine, as far as this process works for it."""

    root: Path
    front: Path
    blobs: Path
    pool: WorkerPool
    layers: Layers
    cleanup: ExitStack
    at_work: int = 0
    closing: threading.Timer | None = None

    def close_later(self, key: str) -> None:
        """Close it when it has had nothing to do for a while."""
        self.closing = threading.Timer(IDLE, _close_idle, [key, self])
        self.closing.daemon = True
        self.closing.start()

    def keep_open(self) -> None:
        """Do not close it later."""
        if self.closing is not None:
            self.closing.cancel()
            self.closing = None

    def close(self) -> None:
        """End its processes and remove its files."""
        self.keep_open()
        self.pool.close()
        self.layers.close()
        self.cleanup.close()


_SITES: dict[str, _Site] = {}
_TOOLCHAINS: dict[str, Toolchain] = {}
# Held while anything is made here: other attempts of this process need the same.
_LOCK = threading.Lock()


def _toolchain(wanted: dict[str, Any], root: Path, say: Callable[[str], None]) -> Toolchain:
    key = sha256_hex(canonical_json(wanted))
    with _LOCK:
        if key not in _TOOLCHAINS:
            _TOOLCHAINS[key] = ExactToolchain.from_json(wanted).here(root, say)
        return _TOOLCHAINS[key]


@contextmanager
def _at_work(packet: dict[str, Any], root: Path) -> Iterator[_Site]:
    """Yield the site of a build, made now if needed, and close it when it is idle for long."""
    # Not for two builds: a compiler process tells only once what it has imported.
    key = packet["build"]
    with _LOCK:
        site = _SITES.get(key) or _opened(packet, root)
        _SITES[key] = site
        site.at_work += 1
        site.keep_open()
    try:
        yield site
    finally:
        with _LOCK:
            site.at_work -= 1
            if not site.at_work:
                site.close_later(key)


def _close_idle(key: str, site: _Site) -> None:
    with _LOCK:
        # It may be at work again, or the time of a later attempt runs.
        if _SITES.get(key) is not site or site.closing is not threading.current_thread():
            return
        del _SITES[key]
    site.close()


@atexit.register
def _close_all() -> None:
    for key in [*_SITES]:
        _SITES.pop(key).close()


def _opened(packet: dict[str, Any], root: Path) -> _Site:
    cleanup = ExitStack()
    temporary = cleanup.enter_context(temporary_folder(what="machine-"))
    layers, blobs = open_store(os.environ), temporary / "blobs"
    # Without a store here, what is made goes to that of the build all the same.
    front = layers.front or temporary / "store"
    hello = Hello.model_validate({**packet["hello"], "blobs": blobs})
    paths = (*hello.secret_paths, str(root), sys.prefix)
    own = {"store": front, "behind": bool(layers.behind), "root": root, "secret_paths": paths}
    own |= {"digests": front / DIGESTS if hello.inputs else None}
    folder = root / packet["folder"]
    pool = WorkerPool(
        hello.model_copy(update=own),
        root / packet["import_root"],
        max(_MOST, usable_cpus()),
        fetch=layers.fetch,
        folder=folder if folder.is_dir() else root,
    )
    return _Site(root, front, blobs, pool, layers, cleanup)
