"""Measure where the first call of the 12-layer transformer goes, in fresh processes.

The executable is made twice: `xla` as XLA serializes it, and `rewritten` as packages hold it, with
the thunk rewrite. Processes that load and call them alternate; medians are printed, and the ratios
of what a first call costs: load, put and first call. The rewrite stays in the project as long as it
saves 15 % of that, or keeps loading from being quadratic (`loading.py`).

    python benchmarks/first_call.py [--rounds 7] [--json]
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from operator import truediv
from pathlib import Path
from typing import Any

import jax
import numpy as np

_ROOT = Path(__file__).resolve().parent.parent
_CALLS = 10
Costs = tuple[list[float], list[float]]
# What a first call is made of.
_FIRST = ("load", "put", "first call")
sys.path.insert(0, str(_ROOT))

from benchmarks.models import data, transformer  # noqa: E402


def main() -> int:
    """Print stages of each kind of executable."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        kinds = make(folder)
        rows = measure(folder, kinds, options.rounds)
    for row in rows:
        print(json.dumps(row) if options.json else _describe(row))
    return 0


def make(folder: Path) -> list[str]:
    """Write the executables and their inputs below `folder`; return the executables' names."""
    from aotbuild.format.target import Target
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
    compiled = lowered.compile()
    plain = jax_private.serialize_executable(compiled)
    module = jax_private.compiled_module(compiled)
    made = {"xla": plain, "rewritten": rewrite(plain, Target.parse("cpu:x86-64-v3:1"), module)[0]}
    for name, executable in made.items():
        (folder / name).write_bytes(executable)
    return list(made)


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
    costs = {kind: _first_costs(found) for kind, found in samples.items()}
    return [
        {
            "executable": kind,
            "of_xla": _ratios(costs[kind], costs["xla"]),
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


def _ratios(ours: Costs, theirs: Costs) -> dict[str, float]:
    found = {}
    for name, mine, base in zip(("wall", "cpu"), ours, theirs, strict=True):
        found[name] = round(statistics.median(map(truediv, mine, base)), 3)
    return found


def _first_costs(found: list[Any]) -> Costs:
    """Return wall clock and CPU time of load, put and first call, for each process."""
    sums = [
        [sum(sample["stages"][stage][at] for stage in _FIRST) for sample in found] for at in (0, 1)
    ]
    return sums[0], sums[1]


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
    ratio = row["of_xla"]
    lines.append(f"  of xla's first call: {ratio['wall']:.2f}, CPU {ratio['cpu']:.2f}")
    stages = {**row["stages"], "later calls": row["steady"]}
    lines += [
        f"  {name:14} {times['wall_ms']:8.2f} ms, {times['cpu_ms']:8.2f} ms of CPU"
        for name, times in stages.items()
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
