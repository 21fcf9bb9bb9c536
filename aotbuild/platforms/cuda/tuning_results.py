"""XLA's tuning results: what ran fastest on a device, per instruction, as protobuf text.

jax 0.10.2 reads and writes `version: 3` and `results {…}`, keyed by the device's facts and the
instruction's text. jax 0.11 and later use `entries {…}`, keyed by hashes of both. One file may hold
both forms, of several GPUs and versions. A comment begins the results of one run of `aotbuild tune`
and says where they were measured; a file that XLA wrote itself has none.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.version import InvalidVersion, Version

from aotbuild.format.files import open_regular
from aotbuild.format.words import quote

if TYPE_CHECKING:
    from aotbuild.platforms.building import TargetItem

_TOKEN = re.compile(r'\s+|#[^\n]*|"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\'|[{}<>]|[^\s{}<>"\'#]+')
_MOST_BYTES = 64 << 20
_REMEDY = "aotbuild tune writes one on a machine with the GPU"
_MEASURED = re.compile(r"# measured on (\S.*) by jax (\S+)\s*\Z")
_STRING = r'"((?:[^"\\]|\\.)*)"'
ENTRIES, RESULTS = "entries", "results"
# The name of an instruction in the key of each form.
_INSTRUCTION = {
    ENTRIES: re.compile(rf"hlo_fingerprint: {_STRING}"),
    RESULTS: re.compile(rf"hlo: {_STRING}"),
}
_DEVICE = re.compile(rf"device: {_STRING}")
# cuDNN's version: of the backend that was fastest, or among the device's facts.
_CUDNN = {
    ENTRIES: re.compile(rf"backend: CUDNN .*optimal_backend_version: {_STRING}"),
    RESULTS: re.compile(r"DNN version: ([0-9]+[.][0-9]+[.][0-9]+)"),
}
# The format of `results`, the only one that jax 0.10.2 reads.
_RESULTS_VERSION = 3
_FIRST_WITH_ENTRIES = Version("0.11")


@dataclass(frozen=True)
class Result:
    """What was fastest for one instruction on one device; `text` is XLA's own, on one line.

    `cudnn` is the version that it is for, if cuDNN was fastest. `device_kind` and `jax` say where
    it was measured; None if the file does not.
    """

    form: str
    device: str
    instruction: str
    text: str
    cudnn: str | None = None
    device_kind: str | None = None
    jax: str | None = None

    @property
    def key(self) -> tuple[str, str, str]:
        """What XLA looks a result up by."""
        return self.form, self.device, self.instruction


@dataclass(frozen=True)
class Fitting:
    """The results that one version of jax can use, as the text that its XLA reads.

    `cudnn` is the version that they were measured with; None if none of them is cuDNN's.
    """

    text: str
    count: int
    cudnn: str | None


@dataclass(frozen=True)
class TuningResults:
    """All results of a file."""

    results: tuple[Result, ...]

    def __str__(self) -> str:
        lines: list[str] = []
        measured = None
        for result in sorted(self.results, key=_order):
            if measured != (measured := (result.form, result.device_kind, result.jax)):
                if result.device_kind is not None:
                    lines.append(f"# measured on {result.device_kind} by jax {result.jax}")
                lines += _head(result.form)
            lines.append(f"{result.form} {result.text}")
        return "\n".join(lines) + "\n"

    @property
    def keys(self) -> frozenset[tuple[str, str, str]]:
        """What XLA looks each result up by."""
        return frozenset(result.key for result in self.results)

    @property
    def device_kinds(self) -> tuple[str, ...]:
        """The GPUs that the file names, sorted."""
        return tuple(sorted({r.device_kind for r in self.results if r.device_kind is not None}))

    def summary(self) -> str:
        """Return how many results there are, by where they were measured."""
        places = Counter((r.device_kind or "a GPU", r.jax or "unknown") for r in self.results)
        return "; ".join(
            f"{count} of {kind} by jax {jax}" for (kind, jax), count in sorted(places.items())
        )

    def merged(self, newer: TuningResults) -> TuningResults:
        """Return both; of two results for one key by one version of jax, the newer one."""
        found = {(*r.key, r.jax, r.cudnn): r for r in (*self.results, *newer.results)}
        return TuningResults(tuple(found.values()))

    def measured_on(self, device_kind: str, jax: str) -> TuningResults:
        """Return the same results, with where they were measured."""
        found = (replace(r, device_kind=device_kind, jax=jax) for r in self.results)
        return TuningResults(tuple(found))

    def fitting(self, jax: str, device_kind: str) -> Fitting:
        """Return what XLA of a version of jax may find for a GPU.

        XLA uses a result of cuDNN for exactly its version, so all are of one: what was measured by
        the same jax decides, else the newest.
        """
        form = ENTRIES if Version(jax) >= _FIRST_WITH_ENTRIES else RESULTS
        found = [
            result
            for result in sorted(self.results, key=lambda result: result.jax == jax)
            if result.form == form and result.device_kind in (None, device_kind)
        ]
        versions = [(r.jax == jax, _version(r.cudnn), r.cudnn) for r in found if r.cudnn]
        cudnn = max(versions)[2] if versions else None
        # The last one of a key: that of the same jax.
        chosen = {result.key: result for result in found if result.cudnn in (None, cudnn)}
        lines = [*_head(form), *(f"{form} {result.text}" for result in chosen.values())]
        return Fitting("\n".join(lines) + "\n", len(chosen), cudnn)

    @classmethod
    def parse(cls, text: str) -> TuningResults:
        """Read a file of results, each once, in the order in which they are written.

        ValueError if it is malformed.
        """
        found = cls(()).merged(cls(tuple(_results(_tokens(text)))))
        if not found.results:
            msg = "there are no results in it"
            raise ValueError(msg)
        return cls(tuple(sorted(found.results, key=_order)))


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


def read_tuning(name: str, kinds: AbstractSet[str], item: TargetItem) -> str | None:
    """Return the text of the file of a target for GPUs of these kinds.

    None if it has a problem, which is reported.
    """
    try:
        text = read_text(item.folder / name)
        measured = TuningResults.parse(text).device_kinds
    except OSError as err:
        reason = f"cannot be read, looked for beside the manifest: {err.strerror}"
        item.report(f"{quote(name)} {reason}; {_REMEDY}", "tuning")
        return None
    except ValueError as err:
        item.report(f"{quote(name)} is no file of tuning results: {err}; {_REMEDY}", "tuning")
        return None
    if measured and kinds and not kinds & set(measured):
        message = f"{quote(name)} has results of {', '.join(measured)}, but this target is "
        item.report(f"{message}{', '.join(sorted(kinds))}; tune on that GPU", "tuning")
    return text


def merge(results: Iterable[TuningResults]) -> TuningResults:
    """Return the results of all; of two for one key, the last one."""
    merged = TuningResults(())
    for each in results:
        merged = merged.merged(each)
    return merged


def _head(form: str) -> list[str]:
    return [f"version: {_RESULTS_VERSION}"] if form == RESULTS else []


def _order(result: Result) -> tuple[str, ...]:
    # First those without a comment: the one above them would be read as theirs.
    return result.device_kind or "", result.jax or "", result.form, result.device, result.text


def _version(text: str | None) -> Version:
    return Version(text or "0")


def _results(tokens: Iterator[str]) -> Iterator[Result]:
    """Yield the results in the tokens of a file, with what the comment before them says."""
    device_kind = jax = None
    for token in tokens:
        if token.startswith("#"):
            if measured := _MEASURED.match(token):
                device_kind, jax = measured[1].strip(), measured[2]
            continue
        name, value = token.removesuffix(":"), _value(tokens)
        # A problem quotes nothing: a file of another kind may hold what no log should.
        if name == "version":
            if value != str(_RESULTS_VERSION):
                msg = f"its format is not version {_RESULTS_VERSION}, the only one known"
                raise ValueError(msg)
        elif name in (ENTRIES, RESULTS) and value.startswith("{"):
            yield replace(_result(name, value), device_kind=device_kind, jax=jax)
        else:
            msg = "expected entries, or a version and results, found another field"
            raise ValueError(msg)


def _result(form: str, text: str) -> Result:
    device, instruction = _DEVICE.search(text), _INSTRUCTION[form].search(text)
    if device is None or instruction is None:
        msg = "a result does not say for which device and instruction it is"
        raise ValueError(msg)
    cudnn = _CUDNN[form].search(text)
    try:
        Version(cudnn[1] if cudnn else "0")
    except InvalidVersion as err:
        msg = "a result of cuDNN has no version that can be read"
        raise ValueError(msg) from err
    return Result(form, device[1], instruction[1], text, cudnn[1] if cudnn else None)


def _tokens(text: str) -> Iterator[str]:
    at = 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        if not found:
            line = text.count("\n", 0, at) + 1
            msg = f"line {line} is no text format of protobuf"
            raise ValueError(msg)
        at = found.end()
        if not found[0].isspace():
            yield found[0]


def _value(tokens: Iterator[str]) -> str:
    """Return the value of a field, on one line and without comments."""
    parts, depth = [], 0
    for token in tokens:
        if token.startswith("#"):
            continue
        parts.append(token)
        depth += {"{": 1, "}": -1}.get(token, 0)
        if depth <= 0:
            return " ".join(parts)
    msg = "it ends within a result" if parts else "its last field has no value"
    raise ValueError(msg)
