"""Measure where the first call of the 12-layer transformer goes, in fresh processes.

Each executable is made three times: `xla` as XLA serializes it, `steady` and `fast` as `startup:`
of a manifest does. Processes that load and call them alternate; medians are printed. With --perf,
Linux's `perf` says what loading and the first call are made of. With --svg, a picture is written.

    python benchmarks/first_call.py [--rounds 7] [--json] [--perf] [--svg FILE]
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import jax
import numpy as np

_ROOT = Path(__file__).resolve().parent.parent
_CALLS = 10
sys.path.insert(0, str(_ROOT))

from benchmarks import first_call_chart, first_call_perf  # noqa: E402
from benchmarks.models import data, transformer  # noqa: E402


def main() -> int:
    """Print stages of each kind of executable."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--perf", action="store_true")
    parser.add_argument("--svg", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        kinds = make(folder)
        rows = measure(folder, kinds, options.rounds)
        if options.perf:
            for row in rows:
                command = _command(folder, row["executable"], calls=0)
                row["inside"] = first_call_perf.inside(command, folder / "perf.data")
    for row in rows:
        print(json.dumps(row) if options.json else _describe(row))
    if options.svg:
        options.svg.write_text(first_call_chart.draw(rows), encoding="utf-8")
    return 0


def make(folder: Path) -> list[str]:
    """Write the executables and their inputs below `folder`; return the executables' names."""
    from aotbuild.format.target import Target
    from aotbuild.platforms.cpu.describe import FAST
    from aotbuild.worker import private as jax_private
    from aotbuild.worker.thunk_rewrite.rewrite import rewrite

    weights, inputs = data.make_data("transformer")
    _write(folder / "weights", list(weights.values()))
    _write(folder / "inputs", list(inputs.values()))
    names = list(weights)

    def flat(*leaves: Any) -> Any:
        return transformer.apply(dict(zip(names, leaves, strict=False)), leaves[-1])

    jax.config.update("jax_traceback_in_locations_limit", 0)
    lowered = jax.jit(flat).lower(*weights.values(), *inputs.values())
    made = {
        "xla": jax_private.serialize_executable(lowered.compile()),
        "fast": jax_private.serialize_executable(
            lowered.compile(compiler_options=dict(FAST.options))
        ),
    }
    target = Target.parse("cpu:x86-64-v3:1")
    made["steady"] = rewrite(made["xla"], target)[0]
    made["fast"] = rewrite(made["fast"], target)[0]
    for name, executable in made.items():
        (folder / name).write_bytes(executable)
    return ["xla", "steady", "fast"]


def measure(folder: Path, kinds: list[str], rounds: int) -> list[dict[str, Any]]:
    """Return medians in ms, wall clock and CPU, by stage, of processes that alternate."""
    samples: dict[str, list[Any]] = {kind: [] for kind in kinds}
    for number in range(rounds):
        for kind in kinds if number % 2 == 0 else reversed(kinds):
            printed = subprocess.run(
                _command(folder, kind, _CALLS), check=True, capture_output=True, text=True
            ).stdout
            samples[kind].append(json.loads(printed))
    sums = {round(sample["sum"] / 10) for found in samples.values() for sample in found}
    assert len(sums) <= 2, f"the executables return different things: {sums}"
    return [
        {
            "executable": kind,
            "bytes": (folder / kind).stat().st_size,
            "rounds": rounds,
            "stages": {
                stage: _medians([sample["stages"][stage] for sample in found])
                for stage in found[0]["stages"]
            },
            "steady": _medians([sample["steady"] for sample in found]),
        }
        for kind, found in samples.items()
    ]


def _command(folder: Path, kind: str, calls: int) -> list[str]:
    child = _ROOT / "benchmarks" / "first_call_process.py"
    files = [str(folder / name) for name in (kind, "weights", "inputs")]
    return [sys.executable, str(child), str(_ROOT), *files, str(calls)]


def _medians(pairs: list[list[float]]) -> dict[str, float]:
    wall, cpu = zip(*pairs, strict=True)
    return {
        "wall_ms": round(statistics.median(wall), 2),
        "cpu_ms": round(statistics.median(cpu), 2),
    }


def _write(file: Path, arrays: list[Any]) -> None:
    """Write arrays into one file, each at a multiple of 64 bytes, behind a line that says where."""
    entries: list[Any] = []
    at = start = 1 << 16
    for array in arrays:
        entries.append([at, array.nbytes, str(array.dtype), array.shape])
        at += -(-array.nbytes // 64) * 64
    header = json.dumps(entries).encode()
    words = np.zeros(at, np.uint8)
    words[:8] = np.frombuffer(np.uint64(len(header)).tobytes(), np.uint8)
    words[8 : 8 + len(header)] = np.frombuffer(header, np.uint8)
    assert 8 + len(header) <= start
    for array, (offset, size, _, _) in zip(arrays, entries, strict=True):
        words[offset : offset + size] = np.frombuffer(array.tobytes(), np.uint8)
    words.tofile(file)


def _describe(row: dict[str, Any]) -> str:
    lines = [f"{row['executable']} ({row['bytes']:,} bytes), medians of {row['rounds']}:"]
    stages = {**row["stages"], "later calls": row["steady"]}
    lines += [
        f"  {name:14} {times['wall_ms']:8.2f} ms, {times['cpu_ms']:8.2f} ms of CPU"
        for name, times in stages.items()
    ]
    for name, shares in row.get("inside", {}).items():
        lines.append(f"  inside {name}:")
        lines += [f"    {share:5.1f}% {what}" for what, share in shares.items()]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
