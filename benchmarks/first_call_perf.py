"""Say what loading and the first call are made of: samples of Linux's `perf`, by C++ function.

Names are those of jaxlib 0.10.2 and 0.12.0.1. A sample counts for the first rule that one of its
frames, from the innermost outwards, fits.
"""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

_FREQUENCY = 5000
_LOADING = "LoadSerializedExecutable"
_RULES = {
    "load": {
        "HLO module made from its proto": "HloModule::CreateFromProto",
        "protos parsed, copied, destroyed": "Proto::~|Proto::.*Proto\\(|protobuf",
        "HLO module written, costed, destroyed": "HloModule::|HloCostAnalysis|HloComputation",
        "graph of thunks": "ExecutionGraph",
        "thunks made from their protos": "ThunkSerDes|ThunkSequenceSerDes",
        "buffers assigned": "BufferAssignment",
        "machine code linked": "LoadFunctionLibrary|llvm::",
    },
    "first call": {
        "YNN: pipelines built": "ynn_create_runtime|EmitYnnSubgraph|YnnFusionThunk::Create",
        "YNN: products computed": "ynn_invoke|YnnFusionThunk|slinky::|ynn::",
        "oneDNN: kernels written": "Xbyak|xbyak_gemm_t::generate",
        # Before Eigen, as its threads run parts of them.
        "XLA's own kernels": "KernelThunk|xla::cpu::Kernel",
        "threads look for work": "MaybeGetTask|GlobalSteal|NonEmptyQueue|WaitForWork",
        # The kernels that oneDNN wrote keep no frame pointer, so nobody is seen to call them. Those
        # of XLA do.
        "Eigen and oneDNN: products computed": r"Eigen::|dnnl|perf-[0-9]+\.map",
        "memory of new pages": "page_fault|clear_page",
    },
}
# While a library is loaded, or when all is over: neither loading an executable nor calling it.
_AROUND = re.compile(
    r"call_init|__run_exit_handlers|::~KernelThunk|::~YnnFusionThunk|~CpuExecutable"
)
_CALLING = re.compile(r"TracedExecute|ynn|slinky|Xbyak|dnnl|Eigen::|KernelThunk|perf-[0-9]+\.map")


def inside(command: list[str], file: Path) -> dict[str, dict[str, float]]:
    """Run a process under perf; return the shares of what loading and calling are made of, in %."""
    record = ["perf", "record", "-q", "-F", str(_FREQUENCY), "-g", "-o", str(file), "--"]
    subprocess.run([*record, *command], check=True, capture_output=True)
    script = subprocess.run(
        ["perf", "script", "-i", str(file)], check=True, capture_output=True, text=True
    ).stdout
    counts = {"load": Counter[str](), "first call": Counter[str]()}
    for frames in _samples(script):
        stage = _stage(frames)
        if stage:
            counts[stage][_kind(frames, stage)] += 1
    return {stage: _shares(counter) for stage, counter in counts.items()}


def _samples(script: str) -> Iterator[list[str]]:
    for block in script.split("\n\n"):
        frames = [line.strip() for line in block.splitlines()[1:]]
        if frames:
            yield frames


def _stage(frames: list[str]) -> str | None:
    if any(_LOADING in frame for frame in frames):
        return "load"
    if any(map(_AROUND.search, frames)):
        return None
    if any(map(_CALLING.search, frames)):
        return "first call"
    return None


def _kind(frames: list[str], stage: str) -> str:
    """Return the rule that fits first; those of loading are asked one after another."""
    for what, pattern in _RULES[stage].items():
        if any(re.search(pattern, frame) for frame in frames):
            return what
    return "other"


def _shares(counter: Counter[str]) -> dict[str, float]:
    total = sum(counter.values()) or 1
    return {what: round(100 * count / total, 1) for what, count in counter.most_common()}
