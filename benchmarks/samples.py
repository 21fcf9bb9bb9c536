"""Where the CPU time of each stage goes: samples of perf, by what the code belongs to.

perf must be installed and allowed to sample: root, or `kernel.perf_event_paranoid` at 1 or below.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from benchmarks.process import clean_environment
from benchmarks.ready import Ready
from benchmarks.registry import System
from benchmarks.venvs import Unavailable

_SYSTEMS = ("raw", "numpy-hoist", "numpy-scan", "iree", "onnxruntime-mapped")
_HERTZ = 20_000
# The first that matches names the group of a sample, from `symbol library`.
_GROUPS = (
    ("kernel", r"\[kernel|\[guest"),
    ("malloc", r"malloc|_int_free|cfree|unlink_chunk|operator (new|delete)"),
    ("SHA-256", r"libcrypto|sha256"),
    ("YNN, planning", r"slinky::"),
    ("YNN, computing", r"ynn::"),
    ("protobuf", r"google::protobuf|Proto\b|Proto::"),
    ("HLO", r"xla::(Hlo|Shape|Layout|NameUniquer|BufferAssign|Literal)"),
    ("OpenBLAS, waiting", r"blas_thread_server"),
    ("Python and numpy", r"libpython|/bin/python|lib-dynload|site-packages/numpy"),
    ("loader", r"ld-linux|ld-musl"),
    ("the system's library", r"site-packages/(jaxlib|onnxruntime|iree|openvino|torch)"),
)


def measure_samples(ready: Ready, systems: list[System]) -> dict[str, Any]:
    """Return `{"rows": […]}`: milliseconds of CPU by stage and group, for the transformer."""
    print("samples: where the CPU time goes", flush=True)
    perf = shutil.which("perf")
    if perf is None:
        return {"not_available": "perf is not installed"}
    wanted = [system for system in systems if system.name in _SYSTEMS]
    rows: list[dict[str, Any]] = []
    for system in ready.systems("transformer", wanted, {}):
        command = system.run_command(ready.python(system.environment), "transformer")
        try:
            rows += [{"system": system.title, **row} for row in _stages(perf, command)]
        except Unavailable as err:
            return {"not_available": str(err)}
    return {"rows": rows}


def _stages(perf: str, command: list[str]) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        recorded = str(Path(folder, "samples"))
        options = ["-q", "-F", str(_HERTZ), "-k", "CLOCK_MONOTONIC", "-e", "cpu-clock"]
        printed = _output([perf, "record", *options, "-o", recorded, "--", *command])
        marks = json.loads(printed.splitlines()[-1])["marks"]
        fields = ["-F", "time,ip,sym,dso", "-i", recorded]
        samples = parse_samples(_output([perf, "script", *fields]))
    starts = [0.0, *(when for _, when in marks)]
    return [
        {"stage": stage, **_by_group(samples, starts[index], when)}
        for index, (stage, when) in enumerate(marks)
    ]


def _by_group(samples: list[tuple[float, str]], start: float, end: float) -> dict[str, float]:
    counted = Counter(group_of(code) for when, code in samples if start <= when < end)
    names = [name for name, _ in _GROUPS] + ["other"]
    return {name: round(counted[name] * 1000 / _HERTZ, 1) for name in names}


def parse_samples(printed: str) -> list[tuple[float, str]]:
    """Return (seconds, code) of each line of `perf script -F time,ip,sym,dso`."""
    line = re.compile(r"^\s*(\d+\.\d+):\s+(.*)$", re.MULTILINE)
    return [(float(when), code) for when, code in line.findall(printed)]


def group_of(code: str) -> str:
    """Return the group of a sample's symbol and library."""
    return next((name for name, pattern in _GROUPS if re.search(pattern, code)), "other")


def _output(command: list[str]) -> str:
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env=clean_environment(), timeout=300
    )
    if done.returncode:
        said = done.stderr.strip().splitlines() or ["no message"]
        msg = f"perf ended with {done.returncode}: {said[-1][:200]}"
        raise Unavailable(msg)
    return done.stdout
