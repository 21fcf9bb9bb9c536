"""`aotbuild.record`: watch this process for a while, and write a manifest or a recording."""

from __future__ import annotations

import atexit
import os
import tempfile
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from aotbuild.errors import AotbuildError
from aotbuild.record.recorder import Recorder, check_folder

if TYPE_CHECKING:
    from aotbuild.record.recorded import Proposal
    from aotbuild.record.recording import Recording

SUFFIX = ".jsonl"


class Record:
    """Watches the calls of jitted functions in this process; see `record`.

    Attributes:
        path: The manifest, or the recording.
        proposal: What the manifest got; None until the end, and for a recording.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path).absolute()
        self.proposal: Proposal | None = None
        self._recorder: Recorder | None = None

    def start(self) -> Record:
        """Watch from now on."""
        check_folder(self.path)
        place = self.path if self._is_recording else _temporary()
        try:
            self._recorder, self._process = Recorder(place).start(), os.getpid()
        except AotbuildError:
            if place != self.path:
                place.unlink()
            raise
        atexit.register(self.stop)
        return self

    def stop(self) -> None:
        """Watch no more, and write the manifest; do nothing if it is off."""
        recorder, self._recorder = self._recorder, None
        if recorder is None:
            return
        atexit.unregister(self.stop)
        recorder.stop()
        # A forked process ends with the functions of atexit that it inherited.
        if not self._is_recording and os.getpid() == self._process:
            try:
                self.proposal = self._write(recorder.read())
            except Exception as err:
                err.add_note(f"The recording is kept for `aotbuild record --from {recorder.path}`.")
                raise
            recorder.path.unlink(missing_ok=True)

    def _write(self, found: Recording) -> Proposal:
        # Needs the extra `build`, which a recording does not.
        from aotbuild.record.recorded import update_manifest, write

        proposal = update_manifest(found, self.path)
        write(proposal)
        return proposal

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
        try:
            self.stop()
        except AotbuildError as failure:
            if error is None:
                raise
            error.add_note(f"aotbuild.record: {failure}")


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
