"""Files of a project that are changed together: shown as a difference first, then all or none."""

from __future__ import annotations

import difflib
import errno
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from aotbuild.errors import ProjectError
from aotbuild.format.files import read_regular, sync_folder, write_whole
from aotbuild.format.renames import How, renamed

# What systems say of hard links where there are none: vfat, exFAT, shared folders, FUSE.
_NO_LINKS = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EMLINK, errno.ENOSYS}


@dataclass(frozen=True)
class FileChange:
    """A file and its new text; `before` is the text that it was made from, None for a new file.

    `about` is said of a file that nobody needs to read, in place of the difference.
    """

    path: Path
    before: str | None
    after: str
    about: str = ""

    @property
    def is_change(self) -> bool:
        """Whether there is anything to write."""
        return self.before != self.after

    def diff(self, name: str) -> str:
        """Return the unified difference; `name` is what the file is called there."""
        old = "/dev/null" if self.before is None else name
        lines = difflib.unified_diff(
            (self.before or "").splitlines(), self.after.splitlines(), old, name, lineterm=""
        )
        return "\n".join(lines)


def read_text(path: Path) -> str | None:
    """Return the text of a file with its line ends as they are; None if there is no file.

    OSError if it cannot be read; ProjectError if it is not UTF-8.
    """
    try:
        return read_regular(path).decode("utf-8")
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as err:
        raise ProjectError(str(path), f"not UTF-8: {err.reason}", "Save it as UTF-8.") from err


def write_together(changes: Sequence[FileChange]) -> list[Path]:
    """Write all files, or none; return those that were written.

    Each is written beside its place first. ProjectError if a file is not what its change was made
    from; OSError if one cannot be written, and none is then.
    """
    wanted = [change for change in changes if change.is_change]
    with ExitStack() as undo:
        finished = [(_written_beside(change, undo), change) for change in wanted]
        for change in wanted:
            if read_text(change.path) != change.before:
                problem = "it was changed by somebody else meanwhile, and nothing was written"
                raise ProjectError(str(change.path), problem, "Run the command again.")
        for temporary, change in finished:
            _move(temporary, change, undo)
        undo.pop_all()
    for folder in {change.path.parent for change in wanted}:
        sync_folder(folder)
    return [change.path for change in wanted]


def _written_beside(change: FileChange, undo: ExitStack) -> Path:
    """Write the new text into a temporary file, and have it on disk."""
    place = change.path.resolve()
    temporary = place.with_name(f".{place.name[:50]}.{os.urandom(8).hex()}")
    undo.callback(temporary.unlink, missing_ok=True)
    with _named(place), temporary.open("x", encoding="utf-8", newline="") as file:
        file.write(change.after)
        file.flush()
        os.fsync(file.fileno())
    if change.before is not None:
        temporary.chmod(place.stat().st_mode & 0o7777)
    return temporary


def _move(temporary: Path, change: FileChange, undo: ExitStack) -> None:
    """Put a finished file into its place; a new one replaces nothing."""
    place = change.path.resolve()
    if change.before is None:
        with _named(place):
            _appear(temporary, place)
        undo.callback(place.unlink, missing_ok=True)
        temporary.unlink(missing_ok=True)
        return
    old = read_regular(place)
    with _named(place):
        temporary.replace(place)
    undo.callback(write_whole, place, old)


def _appear(temporary: Path, place: Path) -> None:
    """Put a file where nothing is; OSError, also for one that has appeared there."""
    try:
        os.link(temporary, place)  # unlike a rename, it fails where a file has appeared
    except OSError as err:
        if err.errno not in _NO_LINKS:
            raise
        if not renamed(temporary, place, How.REFUSE):
            _write_new(place, temporary.read_bytes())


def _write_new(place: Path, data: bytes) -> None:
    """Write a new file in its place, where no system call puts a finished one there."""
    with place.open("xb") as file:
        try:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        except BaseException:  # Ctrl-C too
            place.unlink()
            raise


@contextmanager
def _named(place: Path) -> Iterator[None]:
    """Let an OSError name the file that the user knows, not the temporary one."""
    try:
        yield
    except OSError as err:
        raise OSError(err.errno, err.strerror, str(place)) from err
