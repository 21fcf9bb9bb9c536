"""Refuse a function whose program depends on more than its arguments.

Each job lowers its function in two forks of the worker, at the same time. In the second fork,
clocks are shifted and random sources have another seed (`worker.shifted`), and the function has
been traced before: that may have changed what it reads, such as a counter or a list. If the
StableHLO and the trees of the results are equal, the build accepts the function as pure. Otherwise
the error names the first line whose operation differs. A traced value that the first trace left,
and that the next one reads, is only a note: each signature is traced in a process of its own, where
nothing is left.
"""

from __future__ import annotations

import contextlib
import inspect
import json
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

import jax

from aotbuild.build.jobs import Job
from aotbuild.errors import AotbuildError, TraceRefused
from aotbuild.format.canonical import canonical_digest, canonical_json, sha256_hex
from aotbuild.format.target import Target
from aotbuild.format.temporary import scratch_file
from aotbuild.platforms.building import Hardware
from aotbuild.worker import forks
from aotbuild.worker import private as jax_private
from aotbuild.worker.function import resolve_function
from aotbuild.worker.jaxprs import Program
from aotbuild.worker.leaves import array_digest
from aotbuild.worker.lower import Lowered, exported, lower
from aotbuild.worker.shifted import shift
from aotbuild.worker.trace import ReadsKeptTracer, Traced
from aotbuild.worker.user_errors import place_text

_ADVICE = (
    "An executable repeats what its trace saw. Pass what changes as an argument, draw random "
    "numbers with jax.random from a key that is passed in, and keep clocks, counters and caches "
    "outside."
)
_KEPT = (
    "keeps a traced value, and reads it when it is traced again: the executable is of its first "
    "trace, and jax.jit raises UnexpectedTracerError at another signature"
)
_TRACER_ERRORS = (ReadsKeptTracer, jax.errors.UnexpectedTracerError)
_SHOWN_READS = 5
_DIGITS = 64  # of a digest
_LONGEST_ROW = 160


@dataclass(frozen=True)
class Lowering:
    """What one trace gave: its StableHLO by digest, its trees, and the rows of its program.

    `module` is "" where the function cannot be lowered for the job's first target, which its unit
    reports. Rows are there if they have to tell two programs apart.
    """

    module: str
    tree: str
    signature: str
    rows: tuple[str, ...] = ()

    @property
    def digest(self) -> str:
        """What two equal ones have in common."""
        return canonical_digest(asdict(self))


@dataclass(frozen=True)
class Second:
    """What the second fork found: the lowering of its second trace, or the error that ended it.

    `keeps_tracers` says that the second trace read a traced value that the first one left; then the
    lowering is that of the first. `reads` says which clocks and random sources the function read,
    and where.
    """

    lowering: Lowering | None = None
    error: str = ""
    keeps_tracers: bool = False
    reads: tuple[str, ...] = ()


# Lowers a trace for a target.
Lower = Callable[[Traced, Target, Hardware], Lowered]


def _lowering(traced: Traced, lower: Lower) -> Lowering:
    """Lower a trace for the job's first target, and return what tells it from another one."""
    target, hardware = traced.job.targets[0], traced.job.hardware[0]
    try:
        if target.is_portable:
            module = sha256_hex(exported(traced, target).mlir_module_serialized)
        else:
            lowered = lower(traced, target, hardware)
            constants = [array_digest(value) for value in lowered.constants]
            module = sha256_hex(canonical_json([lowered.digest, [*map(list, constants)]]))
    except TraceRefused:
        module = ""
    tree = sha256_hex(canonical_json(traced.out_tree))
    found = Lowering(module, tree, traced.signature.key())
    return found if module else _with_rows(found, traced)


def _with_rows(lowering: Lowering, traced: Traced) -> Lowering:
    return replace(lowering, rows=tuple(Program.of(traced.closed_jaxpr).rows))


class SecondFork:
    """A fork of this process that traces a job's function with shifted clocks.

    `prepare` imports the function in the fork, and returns what traces it.
    """

    def __init__(self, prepare: Callable[[], Callable[[], Traced]]) -> None:
        self._file = scratch_file()  # read and closed by `result`
        self._reading, self._writing = os.pipe()  # the digest of the first fork's lowering
        self._child = forks.fork()
        if self._child == 0:
            self._run(prepare)

    def _run(self, prepare: Callable[[], Callable[[], Traced]]) -> NoReturn:
        try:
            with Path(os.devnull).open("r+b") as nothing:  # the first fork prints the same
                os.dup2(nothing.fileno(), 1)
                os.dup2(nothing.fileno(), 2)
            try:
                os.close(self._writing)
                found = asdict(_trace_twice(prepare(), self._reading))
            except BaseException as err:  # noqa: BLE001 (the user's modules may raise anything)
                found = asdict(Second(error=_text(err)))
            self._file.write(json.dumps(found).encode())
            self._file.flush()
        finally:
            forks.leave()

    def send(self, digest: str) -> None:
        """Let the fork compare its lowering with the first one, whose digest this is."""
        with contextlib.suppress(OSError):  # the second fork has ended
            os.close(self._reading)
            os.write(self._writing, digest.encode())

    def result(self) -> Second:
        """Wait for the fork, which has been sent a digest, and return what it found."""
        status = os.waitstatus_to_exitcode(os.waitpid(self._child, 0)[1])
        with self._file as file:
            file.seek(0)
            data = file.read()
        if not data:
            return Second(error=f"the process of the second trace ended with {status}")
        found = json.loads(data)
        lowering = found["lowering"]
        if lowering is not None:
            lowering = Lowering(**{**lowering, "rows": tuple(lowering["rows"])})
        return Second(**{**found, "lowering": lowering, "reads": tuple(found["reads"])})


def _trace_twice(trace: Callable[[], Traced], reading: int) -> Second:
    reads, keeps_tracers = shift(), False
    try:
        first = trace()
        try:
            # Another value of a context makes jax trace functions under jit again, too.
            with jax.make_user_context(0)(1):
                again = trace()
                # The first trace may have rebound variables of closures in the arguments, as
                # optax.cosine_decay_schedule does. Calls trace nothing.
                kept = replace(again, signature=first.signature)
                lowering = _lowering(kept, lower)
        except BaseException as err:
            if not any(isinstance(each, _TRACER_ERRORS) for each in (err, err.__cause__)):
                raise
            kept, lowering, keeps_tracers = first, _lowering(first, lower), True
        # Waits until the first fork has lowered the function.
        if lowering.digest != os.read(reading, _DIGITS).decode():
            lowering = _with_rows(lowering, kept)
    except BaseException as err:  # noqa: BLE001 (user code may raise anything)
        return Second(error=_text(err), reads=tuple(reads))
    return Second(lowering, "", keeps_tracers, tuple(reads))


def _text(error: BaseException) -> str:
    return str(error) if isinstance(error, AotbuildError) else f"{type(error).__name__}: {error}"


def begin_check(traced: Traced, fork: SecondFork, lower: Lower) -> Callable[[], list[str]]:
    """Lower a trace for the comparison with that of the second fork; return what waits for it.

    That returns notes, or raises TraceRefused if the two differ. Meanwhile this process compiles.
    """
    mine = _lowering(traced, lower)
    fork.send(mine.digest)
    return lambda: _compare(traced, mine, fork.result())


def _compare(traced: Traced, mine: Lowering, second: Second) -> list[str]:
    job = traced.job
    if second.lowering is None:
        msg = (
            f"{job.call} is not pure: traced once, it raises when traced again\n"
            f"{second.error}\n{_reads(second)}{_ADVICE}"
        )
        raise TraceRefused(msg)
    if second.lowering != mine:
        raise TraceRefused(_differs(traced, _with_rows(mine, traced), second.lowering, second))
    return [f"{job.call} {_KEPT}"] if second.keeps_tracers else []


def _differs(traced: Traced, mine: Lowering, other: Lowering, second: Second) -> str:
    """Return the error where another trace gave another program."""
    job, equations = traced.job, Program.of(traced.closed_jaxpr).equations
    pairs = enumerate(zip(mine.rows, other.rows, strict=False))
    number = next((i for i, (a, b) in pairs if a != b), min(len(mine.rows), len(other.rows)))
    line = next(filter(None, map(_line, equations[number::-1])), "")
    rows = [each.rows[number : number + 1] for each in (mine, other)]
    if mine.rows == other.rows:
        what = "StableHLO differs"
        if mine.tree != other.tree:
            what = "the trees of the results differ"
        elif mine.signature != other.signature:
            what = "the arguments differ"
        shown, line = f"  {what}\n", ""
    else:
        titles = ("first trace: ", "second trace:")
        shown = "".join(
            f"  {title} {(row[0].strip() if row else 'nothing')[:_LONGEST_ROW]}\n"
            for title, row in zip(titles, rows, strict=True)
        )
    return (
        f"{job.call} is not pure: traced twice, it gave two programs\n"
        f"{place_text(line or _definition(job))}{shown}{_reads(second)}{_ADVICE}"
    )


def _line(equation: Any) -> str:
    return jax_private.source_line(equation) if equation is not None else ""


def _reads(second: Second) -> str:
    """Return lines that name what was read: one of them is probably the cause."""
    own = sorted(second.reads, key=lambda read: "-packages" in read)
    return "".join(f"  {read}\n" for read in own[:_SHOWN_READS])


def _definition(job: Job) -> str:
    function = resolve_function(job.call, f"functions.{job.name}.call")
    code = getattr(inspect.unwrap(function), "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno} in {code.co_qualname}" if code else ""
