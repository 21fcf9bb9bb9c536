"""XLA's autotuning results: an `AutotuneResults` message in protobuf's text format.

Only the outer form is read here: a version, and entries for the fastest choice on a device. XLA
reads the text once in a process, with poor errors.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from aotbuild.spec.files import open_regular

_TOKEN = re.compile(r'\s+|#[^\n]*|"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\'|[{}<>]|[^\s{}<>"\'#]+')
_MOST_BYTES = 64 << 20
_KIND = re.compile(r"# device_kind: (.*)")


@dataclass(frozen=True)
class TuningResults:
    """The format's version, the entries as text, and the GPU.

    `device_kind` is None if the file does not state it, such as one that XLA wrote.
    """

    version: int
    entries: tuple[str, ...]
    device_kind: str | None = None

    def __str__(self) -> str:
        kind = [f"# device_kind: {self.device_kind}"] if self.device_kind else []
        entries = (f"results {entry}" for entry in self.entries)
        return "\n".join([*kind, f"version: {self.version}", *entries]) + "\n"

    @classmethod
    def parse(cls, text: str) -> TuningResults:
        """Read a file of results; raises ValueError if it is malformed."""
        kind = _KIND.match(text)
        version, entries = None, []
        # A problem quotes nothing: a file of another kind may hold what no log should.
        for name, value in _fields(_tokens(text)):
            if name == "version:" and value.isdigit() and version is None:
                version = int(value)
            elif name in ("results", "results:") and value.startswith("{"):
                entries.append(value)
            else:
                msg = "expected a version and results, found another field"
                raise ValueError(msg)
        if version is None:
            msg = "the version of the format is missing"
            raise ValueError(msg)
        if not entries:
            msg = "there are no results in it"
            raise ValueError(msg)
        return cls(version, tuple(entries), (kind[1].strip() or None) if kind else None)


def read_text(file: Path) -> str:
    """Return the text of a file of results; raises OSError, or ValueError if malformed."""
    with open_regular(file) as stream:
        data = stream.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        msg = f"it is larger than {_MOST_BYTES} bytes"
        raise ValueError(msg)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as err:
        msg = "it is no UTF-8 text"
        raise ValueError(msg) from err


def merge(results: Iterable[TuningResults], device_kind: str) -> TuningResults:
    """Join the results of one device without duplicates; ValueError if formats differ."""
    found = list(results)
    versions = {result.version for result in found}
    if len(versions) > 1:
        msg = f"results of the formats {sorted(versions)} cannot be joined"
        raise ValueError(msg)
    entries = sorted({entry for result in found for entry in result.entries})
    return TuningResults(versions.pop() if versions else 0, tuple(entries), device_kind)


def _tokens(text: str) -> Iterator[str]:
    at = 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        if not found:
            line = text.count("\n", 0, at) + 1
            msg = f"line {line} is no text format of protobuf"
            raise ValueError(msg)
        at = found.end()
        if not found[0].isspace() and not found[0].startswith("#"):
            yield found[0]


def _fields(tokens: Iterator[str]) -> Iterator[tuple[str, str]]:
    """Yield the outermost fields, each a name and a value on one line."""
    for name in tokens:
        first = next(tokens, None)
        if first is None:
            msg = "its last field has no value"
            raise ValueError(msg)
        yield name, _message(tokens) if first == "{" else first


def _message(tokens: Iterator[str]) -> str:
    """Return the rest of a message after its opening brace."""
    parts, depth = ["{"], 1
    for token in tokens:
        parts.append(token)
        depth += {"{": 1, "}": -1}.get(token, 0)
        if depth == 0:
            return " ".join(parts)
    msg = "it ends within a result"
    raise ValueError(msg)
