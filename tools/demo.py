"""Build the example's wheel, install it into a fresh environment and measure its first answer.

Needs Python 3.11 and a package index, nothing else. Everything it makes is in `.demo/`, made anew
each time. Ends with 1 if a step fails, if the wheel's answers are wrong or differ from jit's, or
if the process that uses the wheel traces, lowers or compiles anything.
"""

import json
import math
import os
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from textwrap import indent
from typing import Any
from zipfile import ZipFile

ROOT = Path(__file__).resolve().parent.parent
DEMO = ROOT / ".demo"
DIST = DEMO / "dist"  # aotbuild's own wheel
WHEELS = DEMO / "wheels"  # the example's
AWAY = DEMO / "away"  # an empty folder to run in, so that nothing is imported from a checkout
PIP = ("-m", "pip", "--disable-pip-version-check")
PAIRS = 5
LEAST_ACCURACY = 0.95
TOLERANCE = 1e-4  # of log-probabilities; the two compilations may round differently
# What blobs are, where the end of their names does not say it.
MEANINGS = {"safetensors": "safetensors (golden outputs)"}
# What would change the measurement if the caller's shell had it set.
FOREIGN = ("AOTBUILD_", "JAX_", "PYTHON", "XLA_")

Report = dict[str, Any]


class StepFailed(Exception):
    """A command ended with an error; says which and what it printed."""

    def __init__(self, done: subprocess.CompletedProcess[str]) -> None:
        """Keep the finished command."""
        self.done = done
        streams = {"stdout": done.stdout, "stderr": done.stderr}
        lines = [f"command: {subprocess.list2cmdline(done.args)}", f"returned: {done.returncode}"]
        for name, text in streams.items():
            if text.strip():
                lines += [f"{name}:", indent(text.rstrip(), "    ")]
        super().__init__("\n".join(lines))


@dataclass(frozen=True)
class Result:
    """The reports of every pair of processes, in the order they ran."""

    aot: list[Report]
    jit: list[Report]


def main() -> int:
    """Run the demo; return the exit status."""
    try:
        result = run_steps()
    except StepFailed as err:
        print(f"\nfailed\n{indent(str(err), '  ')}", file=sys.stderr)
        return 1
    problems = [problem for check in CHECKS for problem in check(result)]
    for problem in problems:
        print(f"failed: {problem}", file=sys.stderr)
    return 1 if problems else 0


def run_steps() -> Result:
    """Build, install, measure and print; return what was measured."""
    if DEMO.exists():
        shutil.rmtree(DEMO)
    for folder in (DIST, WHEELS, AWAY):
        folder.mkdir(parents=True)

    heading("1. aotbuild's own wheel")
    tools = make_environment("tools")
    build_wheel(tools, ROOT, DIST)

    heading("2. the example's wheel: trace, lower, compile, pack")
    wheel = build_wheel(tools, ROOT / "example_project", WHEELS)

    heading("3. a fresh environment with the example's wheel")
    fresh = make_environment("fresh")
    timed(f"pip install {wheel.name}", [fresh, *PIP, "install", wheel.as_uri()])

    heading("4. fresh processes")
    print(indent(run([fresh, "-P", "-m", "digits"]).rstrip(), "  "))
    result = measure(fresh)

    heading("5. the result")
    print(table(wheel, result))
    return result


def make_environment(name: str) -> str:
    """Make a virtual environment and return its Python."""
    timed(f"virtual environment {name}", [sys.executable, "-m", "venv", str(DEMO / name)])
    folder, file = ("Scripts", "python.exe") if os.name == "nt" else ("bin", "python")
    return str(DEMO / name / folder / file)


def build_wheel(python: str, project: Path, into: Path) -> Path:
    """Build the wheel of a project in an isolated environment, and return its path."""
    command = [python, *PIP, "wheel", "--no-deps", "--wheel-dir", str(into), str(project)]
    timed(f"pip wheel {project.relative_to(ROOT.parent)}", command)
    (wheel,) = into.glob("*.whl")
    print(f"  {wheel.name}, {kilobytes(wheel.stat().st_size)}")
    return wheel


def measure(python: str) -> Result:
    """Start processes that use the wheel and processes that use jit, in turns."""
    result = Result([], [])
    for number in range(1, PAIRS + 1):
        for way, reports in (("aot", result.aot), ("jit", result.jit)):
            reports.append(probe(python, way))
        aot, jit = result.aot[-1]["seconds"], result.jit[-1]["seconds"]
        print(f"  run {number} of {PAIRS}: first result after {aot:.2f} s, with jit {jit:.2f} s")
    return result


def probe(python: str, way: str) -> Report:
    """Run the probe in a process of its own and return its report."""
    script = str(ROOT / "tools" / "demo_probe.py")
    report: Report = json.loads(run([python, "-P", script, way, repr(time.time())]))
    return report


def table(wheel: Path, result: Result) -> str:
    """Return the comparison as text."""
    aot, jit = result.aot[-1], result.jit[-1]
    first = {name: median_seconds(runs) for name, runs in vars(result).items()}
    rows = [
        ("", "precompiled", "jax.jit"),
        ("accuracy", f"{aot['accuracy']:.1%}", f"{jit['accuracy']:.1%}"),
        ("process start to first result", f"{first['aot']:.2f} s", f"{first['jit']:.2f} s"),
        *((name, str(aot["counts"][name]), str(jit["counts"][name])) for name in aot["counts"]),
    ]
    lines = [f"  {name:<31}{left:>12}{right:>12}" for name, left, right in rows]
    lines += [
        "",
        (
            f"  The first result came {first['jit'] / first['aot']:.1f} times sooner"
            f" (medians of {PAIRS} processes each)."
        ),
        f"  {aot['images']} images in batches; {wheel.name}, {kilobytes(wheel.stat().st_size)},",
        f"  carries {blobs(wheel)}.",
    ]
    return "\n".join(lines)


def blobs(wheel: Path) -> str:
    """Return how many blobs of each kind are in the wheel, by the ends of their names."""
    with ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if "/_aot/blobs/" in name]
    kinds = Counter(name.rpartition(".")[2] for name in names)
    counts = (f"{count} x {MEANINGS.get(kind, kind)}" for kind, count in sorted(kinds.items()))
    return ", ".join(counts) or "nothing"


def check_accuracy(result: Result) -> list[str]:
    """Every process recognized nearly all digits."""
    least = min(report["accuracy"] for report in result.aot + result.jit)
    return [] if least >= LEAST_ACCURACY else [f"accuracy {least:.3f} < {LEAST_ACCURACY}"]


def check_outputs(result: Result) -> list[str]:
    """Both ways gave the same log-probabilities."""
    expected = result.jit[0]["outputs"]
    return [
        f"outputs of precompiled run {number} differ from those of jit"
        for number, report in enumerate(result.aot, 1)
        if not all_close(report["outputs"], expected)
    ]


def check_counts(result: Result) -> list[str]:
    """Nothing was compiled with the wheel; with jit it was, so the counters do count."""
    total: Counter[str] = Counter()
    for report in result.aot:
        total.update(report["counts"])
    problems = [
        f"{count} {name} in {len(result.aot)} processes with the precompiled wheel, not 0"
        for name, count in total.items()
        if count
    ]
    problems += [
        f"no {name} counted with jit: the counters are broken"
        for name, count in result.jit[0]["counts"].items()
        if not count
    ]
    return problems


CHECKS: tuple[Callable[[Result], list[str]], ...] = (check_accuracy, check_outputs, check_counts)


def all_close(found: Sequence[float], expected: Sequence[float]) -> bool:
    """Compare number by number; NaN is close to nothing."""
    return len(found) == len(expected) and all(
        math.isclose(a, b, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
        for a, b in zip(found, expected, strict=True)
    )


def timed(what: str, command: Sequence[str]) -> None:
    """Run a command and print how long it took."""
    print(f"  {what} ...", end=" ", flush=True)
    start = time.monotonic()
    run(command)
    print(f"{time.monotonic() - start:.1f} s")


def run(command: Sequence[str]) -> str:
    """Run a command away from the checkout and return its stdout; StepFailed if it fails."""
    done = subprocess.run(
        command,
        cwd=AWAY,
        env=environment(),
        capture_output=True,
        text=True,
        encoding="utf-8",
        errors="replace",
        check=False,
    )
    if done.returncode:
        raise StepFailed(done)
    return done.stdout


def environment() -> dict[str, str]:
    """Return the caller's variables without foreign ones, and with our wheels for every pip.

    pip's isolated build environments hear of them only this way; it splits the value at spaces,
    so folders are given as URLs.
    """
    kept = {key: value for key, value in os.environ.items() if not key.startswith(FOREIGN)}
    links = [kept.get("PIP_FIND_LINKS", ""), DIST.as_uri(), WHEELS.as_uri()]
    return kept | {"PIP_FIND_LINKS": " ".join(filter(None, links)), "PYTHONUTF8": "1"}


def median_seconds(reports: Sequence[Report]) -> float:
    """Return the median time from process start to first result."""
    return median(float(report["seconds"]) for report in reports)


def kilobytes(size: int) -> str:
    """Return a file size as text."""
    return f"{size / 1000:,.0f} kB"


def heading(text: str) -> None:
    """Print the title of a step."""
    print(f"\n{text}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
