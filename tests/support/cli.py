"""Commands of `aotbuild`, called in this process."""

from __future__ import annotations

import io
import sys
from dataclasses import dataclass
from unittest import mock

from aotbuild.cli import app


@dataclass(frozen=True)
class Result:
    """How a command ended, and what it printed; `output` is all of it, as on a terminal."""

    exit_code: int
    stdout_bytes: bytes
    stderr: str
    output: str

    @property
    def stdout(self) -> str:
        return self.stdout_bytes.decode()


class _Copied(io.BytesIO):
    """A stream whose bytes another one gets, too."""

    def __init__(self, other: io.BytesIO) -> None:
        super().__init__()
        self._other = other

    def write(self, data: bytes) -> int:  # type: ignore[override]
        self._other.write(data)
        return super().write(data)


def invoke(*args: object) -> Result:
    """Return how a command ended, whatever its exit code."""
    both = io.BytesIO()
    out, err = _Copied(both), _Copied(both)
    stdout, stderr = (io.TextIOWrapper(s, "utf-8", write_through=True) for s in (out, err))
    with mock.patch.multiple(sys, stdout=stdout, stderr=stderr):
        try:
            code = app.run([str(arg) for arg in args])
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 0
    stderr_text, output = (stream.getvalue().decode(errors="replace") for stream in (err, both))
    return Result(code, out.getvalue(), stderr_text, output)


def run(*args: object, code: int = 0) -> Result:
    """Return how a command ended; it must be with this exit code."""
    result = invoke(*args)
    assert result.exit_code == code, result.output
    return result
