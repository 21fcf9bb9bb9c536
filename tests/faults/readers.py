"""The commands that read a wheel or a package, and a limit for their waiting."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

from faults.ended import LIMIT

WHEEL = "demo-1.0-py3-none-any.whl"
# {} is for the wheel.
OF_WHEELS: tuple[tuple[str, ...], ...] = (
    ("inspect", "{}", "--json"),
    ("diff", "{}", "{}"),
    ("verify", "{}", "--no-run"),
    ("verify", "{}"),
    ("sbom", "{}"),
    ("stubs", "{}"),
    ("bench", "{}"),
    ("split", "{}", "--out", "out"),
    ("merge", "{}", "{}", "--out", "out"),
    ("release-check", "{}"),
    ("export-cache", "out", "{}"),
    ("coverage", "calls.json", "{}"),
    ("weights", "w.safetensors", "--like", "{}", "--version", "2", "--out", "out"),
)
OF_FOLDERS: tuple[tuple[str, ...], ...] = (
    ("inspect", "_aot"),
    ("verify", "_aot", "--no-run"),
    ("stubs", "_aot"),
    ("diff", "_aot", "_aot"),
)


@contextmanager
def no_hang() -> Iterator[None]:
    """Raise AssertionError in what waits for ever, as for the writer of a pipe."""

    def stop(*_: object) -> None:
        msg = "hangs"
        raise AssertionError(msg)

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(LIMIT // 4)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
