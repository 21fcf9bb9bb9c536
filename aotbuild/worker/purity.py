"""Refuse a function whose program depends on more than its arguments.

Each job lowers its function twice, in two processes (`worker.second_traces`). If the StableHLO and
the trees of the results are equal, the build accepts the function as pure. Otherwise the error
names the first line whose operation differs. A traced value that the first trace left, and that the
next one reads, is only a note: each signature is traced in a process of its own, where nothing is
left.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

from aotbuild.build.jobs import Job
from aotbuild.errors import TraceRefused
from aotbuild.format.canonical import canonical_digest, canonical_json, sha256_hex
from aotbuild.format.target import Target
from aotbuild.platforms.building import Hardware
from aotbuild.worker import private as jax_private
from aotbuild.worker.function import resolve_function
from aotbuild.worker.jaxprs import Program
from aotbuild.worker.leaves import array_digest
from aotbuild.worker.lower import Lowered, exported
from aotbuild.worker.trace import Traced
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
_SHOWN_READS = 5
_LONGEST_ROW = 160


# Lowers a trace for a target.
Lower = Callable[[Traced, Target, Hardware], Lowered]


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

    @classmethod
    def of(cls, traced: Traced, lower: Lower) -> Lowering:
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
        found = cls(module, tree, traced.signature.key())
        return found if module else found.with_rows(traced)

    def with_rows(self, traced: Traced) -> Lowering:
        """Return this with the rows of the program of its trace."""
        return replace(self, rows=tuple(Program.of(traced.closed_jaxpr).rows))

    @property
    def digest(self) -> str:
        """What two equal ones have in common."""
        return canonical_digest(asdict(self))


@dataclass(frozen=True)
class Second:
    """What the second process found: the lowering of its last trace, or the error that ended it.

    `keeps_tracers` says that the second trace read a traced value that the first one left; then the
    lowering is that of the first. `reads` says which clocks and random sources the function read,
    and where.
    """

    lowering: Lowering | None = None
    error: str = ""
    keeps_tracers: bool = False
    reads: tuple[str, ...] = ()


def compare(traced: Traced, mine: Lowering, second: Second) -> list[str]:
    """Return notes; TraceRefused if a function's second trace gave something else than the first.

    `mine` is the lowering of the first trace.
    """
    job = traced.job
    if second.lowering is None:
        msg = (
            f"{job.call} is not pure: traced once, it raises when traced again\n"
            f"{second.error}\n{_reads(second)}{_ADVICE}"
        )
        raise TraceRefused(msg)
    if second.lowering != mine:
        raise TraceRefused(_differs(traced, mine.with_rows(traced), second.lowering, second))
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
