"""Measure what the number of executables in a package costs: opening, memory, a call, a mismatch.

One tiny function is compiled once. Its record is repeated with other sizes, under other names and
for other targets, so that a package of 10,000 is made in seconds; only the one that was compiled is
ever run. Each measurement is a fresh process, which opens an empty package first: what is shown is
what the executables add. Layouts take turns; medians of the rounds are printed.

    python benchmarks/index.py [--backend numpy jax] [--rounds 7] [--json]
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from small_package import build_affine

from aotbuild.format.aval import Aval
from aotbuild.format.index import Index, write_index
from aotbuild.format.record import Record
from aotbuild.format.target import Target

# Run in each measured process: the backend, an empty package and the measured one.
_CHILD = """
import json, sys
from time import perf_counter
import numpy as np
import aotbuild

backend, empty, folder, name = sys.argv[1:]

def memory_mb():
    lines = open("/proc/self/status").read().splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) / 1024

def timed(function):
    start = perf_counter()
    try:
        result = function()
    except aotbuild.errors.SignatureMismatch:
        result = None
    return result, (perf_counter() - start) * 1000

aotbuild.load(empty, arrays=backend)
_, empty_ms = timed(lambda: aotbuild.load(empty, arrays=backend))
before = memory_mb()
library, open_ms = timed(lambda: aotbuild.load(folder, arrays=backend))
found = {"open_ms_over_empty": open_ms - empty_ms, "memory_mb_over_empty": memory_mb() - before}
if name:
    kernel, one, other = getattr(library, name), np.ones(1, "f4"), np.ones(20_000, "f4")
    _, found["first_call_ms"] = timed(lambda: kernel({"w": one, "b": one}, one))
    kernel({"w": one, "b": one}, one)
    _, found["mismatch_ms"] = timed(lambda: kernel({"w": other, "b": other}, other))
    _, found["names_ms"] = timed(lambda: library.functions)
print(json.dumps(found))
"""


@dataclass(frozen=True)
class Layout:
    """How executables are spread: functions, signatures of each, targets of each signature."""

    functions: int
    signatures: int
    targets: int = 1

    @property
    def executables(self) -> int:
        """Their number."""
        return self.functions * self.signatures * self.targets


_EMPTY = Layout(0, 0)
_LAYOUTS = (
    Layout(1, 10_000),
    Layout(1_000, 10),
    Layout(1, 2_500, 4),
    Layout(1, 1_000),
    Layout(1, 10),
)
# Other targets than the one that was compiled; the records of GPUs say what GPUs need.
_TARGETS = ("cpu:aarch64:1", "tpu:v5e:1x1:1", "cuda:h200:1")


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backend", nargs="+", choices=["numpy", "jax"], default=["numpy", "jax"])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    for row in measure(options.backend, options.rounds):
        print(json.dumps(row) if options.json else _describe(row), flush=True)
    return 0


def measure(backends: list[str], rounds: int) -> Iterator[dict[str, Any]]:
    """Yield medians for each backend and layout: ms and MB, both over an empty package."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        compiled = build_affine(root, [1])
        places = {
            layout: write(compiled, root / str(number), layout)
            for number, layout in enumerate((_EMPTY, *_LAYOUTS))
        }
        for backend in backends:
            found: dict[Layout, list[dict[str, float]]] = {layout: [] for layout in _LAYOUTS}
            for _ in range(rounds):
                for layout, samples in found.items():
                    samples.append(_run(backend, places[_EMPTY], places[layout], layout))
            for layout, samples in found.items():
                medians = {key: _median(samples, key) for key in samples[0]}
                yield {
                    "backend": backend,
                    "executables": layout.executables,
                    **asdict(layout),
                    "index_mb": (places[layout] / "index").stat().st_size / 1e6,
                    **medians,
                }


def write(compiled: Path, folder: Path, layout: Layout) -> Path:
    """Write a package of this layout around the compiled executable; return its `_aot` folder."""
    index = Index.open((compiled / "index").read_bytes(), "index")
    (function,) = index.functions()
    (record,) = index.records(function.name)
    functions = [replace(function, name=f"f{number}") for number in range(layout.functions)]
    records = [
        variant
        for named in functions
        for size in range(1, layout.signatures + 1)
        for variant in _variants(resized(record, named.name, size), layout.targets)
    ]
    header = {key: index.header[key] for key in index.header.keys() - {"rows", "objects"}}
    folder.mkdir()
    (folder / "blobs").symlink_to(compiled / "blobs")
    (folder / "index").write_bytes(write_index(header, functions, records))
    return folder


def resized(record: Record, function: str, size: int) -> Record:
    """Return a record of another function, with another size of its arrays."""
    leaves = tuple(replace(aval, shape=(size,)) for aval in record.signature.leaves)
    return replace(
        record,
        function=function,
        signature=replace(record.signature, leaves=leaves),
        calling=replace(record.calling, outputs=(Aval((size,), "float32"),)),
        provenance={**record.provenance, "label": f"{function}(size={size})"},
    )


def _variants(record: Record, targets: int) -> Iterator[Record]:
    """Yield a record and its like for other targets, which are refused here."""
    yield record
    for text in _TARGETS[: targets - 1]:
        target = Target.parse(text)
        requires = replace(record.requires, platforms=(target.platform,), isa=None)
        isa = target.detail if target.platform == "cpu" else None
        yield replace(record, target=target, requires=replace(requires, isa=isa))


def _run(backend: str, empty: Path, folder: Path, layout: Layout) -> dict[str, float]:
    name = "f0" if layout.functions else ""
    command = [sys.executable, "-c", _CHILD, backend, str(empty), str(folder), name]
    found: dict[str, float] = json.loads(subprocess.check_output(command))
    return found


def _median(samples: list[dict[str, float]], key: str) -> float:
    return statistics.median(sample[key] for sample in samples)


def _describe(row: dict[str, Any]) -> str:
    return (
        f"{row['backend']:>5} {row['functions']:>5} functions x {row['signatures']:>6} signatures "
        f"x {row['targets']} targets, index {row['index_mb']:.1f} MB: open "
        f"+{row['open_ms_over_empty']:.2f} ms, memory +{row['memory_mb_over_empty']:.1f} MB, first "
        f"call {row['first_call_ms']:.1f} ms, mismatch {row['mismatch_ms']:.1f} ms, names "
        f"{row['names_ms']:.1f} ms"
    )


if __name__ == "__main__":
    sys.exit(main())
