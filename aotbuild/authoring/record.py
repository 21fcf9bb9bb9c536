"""`aotbuild.record`: watch this process for a while, and write a manifest or a recording."""

from __future__ import annotations

import atexit
import os
import tempfile
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from aotbuild.watch.recorder import Recorder

if TYPE_CHECKING:
    from aotbuild.authoring.recorded import Proposal

SUFFIX = ".jsonl"


class Record:
    """Watches the calls of jitted functions in this process; see `record`.

    Attributes:
        path: The manifest, or the recording.
        proposal: What the manifest got; None until the end, and for a recording.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.proposal: Proposal | None = None
        self._recorder: Recorder | None = None

    def start(self) -> Record:
        """Watch from now on."""
        recorder = Recorder(self.path if self._is_recording else _temporary())
        self._recorder = recorder.start()
        atexit.register(self.stop)
        return self

    def stop(self) -> None:
        """Watch no more, and write the manifest; do nothing if it is off."""
        recorder, self._recorder = self._recorder, None
        if recorder is None:
            return
        atexit.unregister(self.stop)
        recorder.stop()
        if not self._is_recording:
            # Needs the extra `build`, which a recording does not.
            from aotbuild.authoring.recorded import update_manifest, write

            found = recorder.read()
            recorder.path.unlink(missing_ok=True)
            self.proposal = update_manifest(found, self.path)
            write(self.proposal)

    @property
    def _is_recording(self) -> bool:
        return self.path.suffix == SUFFIX

    def __enter__(self) -> Record:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()


def record(path: str | os.PathLike[str]) -> Record:
    """Watch all calls of jitted functions in this process, in all threads.

    Functions that were made or called before are watched, too, and so are processes that are
    forked meanwhile. What the program computes does not change; a warm call takes a few µs longer.

    Args:
        path: A manifest, as `aot.yaml`, which gets the signatures that were called: it is written
            or extended at the end. Or a recording, as `calls.jsonl`, which is appended to while
            the program runs; `aotbuild record --from` makes a manifest of it.

    Raises:
        AotbuildError: Another recorder is on in this process, or the folder does not exist. At the
            end: no manifest can have what was recorded, or the one that is there is not valid.

    Returns:
        A context manager; its methods `start` and `stop` do the same.

    Examples:
        >>> with aotbuild.record("aot.yaml"):
        ...     serve(requests)
    """
    return Record(path)


def _temporary() -> Path:
    descriptor, name = tempfile.mkstemp(prefix="aotbuild-", suffix=SUFFIX)
    os.close(descriptor)
    return Path(name)
