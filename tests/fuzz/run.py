"""Run the harnesses of this folder under atheris, side by side on all CPUs, and print a table.

    python tests/fuzz/run.py --seconds 120                 all harnesses, two minutes in all
    python tests/fuzz/run.py --runs 1000000 record wheel   two harnesses, so many inputs each

What the fuzzer learned stays in `.fuzz/corpus`, and the next run begins with it. An input that
failed is in `.fuzz/found`. The exit code is 1 then, and the line above says how to repeat it; 2 if
atheris is not installed.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
WORK = ROOT / ".fuzz"
# Seconds after which an input counts as a hang, and MiB of memory that no input may take.
TIMEOUT, MEMORY = 20, 2048
# Bytes of an input, at most, or of the longest seed: long ones are slow, and find little more.
LONGEST = 1 << 12
_DONE = re.compile(r"^#([0-9]+)\s+DONE\s+(?:cov: ([0-9]+) ft: ([0-9]+) )?", re.MULTILINE)
_STATUS = re.compile(r"^#([0-9]+)\s", re.MULTILINE)


@dataclass(frozen=True)
class Result:
    """What became of a harness: inputs, covered branches, features, seconds, and what it found."""

    name: str
    inputs: int
    branches: int
    features: int
    seconds: float
    found: tuple[str, ...]
    log: str

    def __str__(self) -> str:
        speed = self.inputs / max(self.seconds, 0.001)
        end = ", ".join(self.found) or "nothing found"
        numbers = f"{self.inputs:>10,} {speed:>9,.0f} {self.branches:>8,} {self.features:>8,}"
        return f"{self.name:<20}{numbers}  {end}"


def harnesses() -> list[str]:
    """Return the names of all harnesses."""
    return sorted(path.stem.removeprefix("fuzz_") for path in HERE.glob("fuzz_*.py"))


def command(name: str, *more: str) -> list[str]:
    """Return the command line of a harness."""
    return [sys.executable, str(HERE / f"fuzz_{name}.py"), *more]


def environment() -> dict[str, str]:
    """Return the variables of a harness: it imports this checkout, and needs no store."""
    path = os.pathsep.join(map(str, (HERE.parent, ROOT, ROOT / "hatch_plugin")))
    quiet = {"JAX_PLATFORMS": "cpu", "AOTBUILD_STORE": "off", "PYTHONHASHSEED": "0"}
    return {**os.environ, **quiet, "PYTHONPATH": path}


def fuzz(name: str, seconds: float | None, runs: int | None, seed: int | None) -> Result:
    """Run one harness until its time or its runs are over, or it finds something.

    With a seed, the same inputs come in the same order, as far as the time reaches.
    """
    kept, found = WORK / "corpus" / name, WORK / "found" / name
    for folder in (kept, found):
        folder.mkdir(parents=True, exist_ok=True)
    before = set(found.iterdir())
    seeds = [HERE / kind / name for kind in ("corpus", "findings")]
    limits = [f"-max_total_time={max(1, round(seconds))}"] if seconds else []
    limits += [f"-runs={runs}"] if runs else []
    limits += [f"-seed={seed}"] if seed else []
    limits += [f"-timeout={TIMEOUT}", f"-report_slow_units={TIMEOUT}"]
    sizes = [path.stat().st_size for folder in seeds for path in folder.glob("*")]
    limits += [f"-rss_limit_mb={MEMORY}", f"-max_len={max(LONGEST, *sizes)}"]
    limits += ["-print_final_stats=1"]
    places = [str(folder) for folder in (kept, *seeds) if folder.exists()]
    began = time.monotonic()
    log = WORK / f"{name}.log"
    with log.open("wb") as output:
        arguments = command(name, *limits, f"-artifact_prefix={found}/", *places)
        done = subprocess.run(arguments, stdout=output, stderr=output, env=environment(), cwd=WORK)
    took = time.monotonic() - began
    text = log.read_text(errors="replace")
    end = _DONE.search(text)
    counts = [int(number or 0) for number in end.groups()] if end else [_last(text), 0, 0]
    new = [str(path.relative_to(ROOT)) for path in sorted({*found.iterdir()} - before)]
    if done.returncode and not new:
        new = [f"exit code {done.returncode}, see {log.relative_to(ROOT)}"]
    return Result(name, *counts, took, tuple(new), text)


def _last(text: str) -> int:
    return max(map(int, _STATUS.findall(text)), default=0)


def report(result: Result) -> None:
    """Print the line of a harness, and how to repeat what it found."""
    print(result, flush=True)
    for place in result.found:
        if "/" in place and " " not in place:
            repeat = f"PYTHONPATH=tests:. {sys.executable} tests/fuzz/fuzz_{result.name}.py {place}"
            print(f"  repeat: {repeat}")
    if result.found:
        print("\n".join(f"    {line}" for line in _reason(result.log)), flush=True)


def _reason(log: str) -> list[str]:
    marks = ("Uncaught Python exception", "ERROR: libFuzzer")
    lines = log[
        min((at for mark in marks if (at := log.find(mark)) >= 0), default=0) :
    ].splitlines()
    return [line for line in lines if not line.startswith("0x")][:25]


def main() -> int:
    """Run what the command line names."""
    parser = argparse.ArgumentParser(description="Fuzz the readers of aotbuild.")
    parser.add_argument("harness", nargs="*", help=f"among {', '.join(harnesses())}; default: all")
    parser.add_argument("--seconds", type=float, help="of all harnesses together")
    parser.add_argument("--runs", type=int, help="inputs of each harness")
    parser.add_argument("--seed", type=int, help="from 1 on; another one in each run by default")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="harnesses at a time")
    given = parser.parse_args()
    names = given.harness or harnesses()
    if unknown := sorted(set(names) - set(harnesses())):
        parser.error(f"no harness {', '.join(unknown)}; there are {', '.join(harnesses())}")
    if importlib.util.find_spec("atheris") is None:
        print(f"atheris is not installed for {sys.executable}: NOTHING IS FUZZED", file=sys.stderr)
        return 2
    seconds = given.seconds or (None if given.runs else 60 * len(names))
    each = seconds * given.jobs / len(names) if seconds else None
    print(f"{'harness':<20}{'inputs':>10} {'per s':>9} {'branches':>8} {'features':>8}")
    results = []
    with ThreadPoolExecutor(given.jobs) as pool:
        for result in pool.map(
            partial(fuzz, seconds=each, runs=given.runs, seed=given.seed), names
        ):
            report(result)
            results.append(result)
    inputs, branches = (sum(getattr(r, n) for r in results) for n in ("inputs", "branches"))
    failed = [result.name for result in results if result.found]
    print(f"{len(results)} harnesses: {inputs:,} inputs, {branches:,} branches")
    print(f"found something: {', '.join(failed)}" if failed else "nothing was found")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
