"""The language model: five ways to its first token, how long each takes and what it compiles."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from demo_commands import DEMO, Report, probe, timed
from demo_results import all_close, count_problems, spread

PROBE = "demo_lm_probe.py"
ROUNDS = 3
LABELS = {
    "jit": "jax.jit",
    "export": "jax.export, traced before",
    "cache": "jax.jit, persistent cache warm",
    "jax": "aotbuild",
    "numpy": 'aotbuild, arrays="numpy"',
}
PRECOMPILED = ("jax", "numpy")
HEADER = f"  {'':<33}{'first token':<25}{'16 tokens':>9}{'traced':>9}{'compiled':>10}"


@dataclass(frozen=True)
class Row:
    """One way, over all rounds: seconds to the first token and to the last, and what jax counted.

    The counts are those of the round that had most.
    """

    way: str
    first: tuple[float, ...]
    last: tuple[float, ...]
    traced: int
    compiled: int

    def __str__(self) -> str:
        """Return the row as a line of the table."""
        seconds = f"{spread(self.first):<25}{median(self.last):>7.2f} s"
        return f"  {LABELS[self.way]:<33}{seconds}{self.traced:>9}{self.compiled:>10}"


def measure(python: str) -> tuple[list[Row], list[str]]:
    """Make weights, start processes of all ways in turns, print; return rows and problems."""
    given = (str(DEMO / "weights.safetensors"), str(DEMO))
    timed("random weights, 47 MB", [python, "-P", "-m", "tinylm.weights", given[0]])
    print("  what jax.export and jax's cache hold ...", flush=True)
    probe(python, PROBE, "prepare", *given)
    reports: dict[str, list[Report]] = {way: [] for way in LABELS}
    for number in range(1, ROUNDS + 1):
        for way, found in reports.items():
            found.append(probe(python, PROBE, way, *given))
        seconds = ", ".join(f"{found[-1]['first']:.2f} s" for found in reports.values())
        print(f"  round {number} of {ROUNDS}: {seconds}", flush=True)
    rows = [_row(way, found) for way, found in reports.items()]
    return rows, [f"tinylm: {problem}" for problem in problems(reports)]


def table(rows: Sequence[Row]) -> list[str]:
    """Return the rows below their header, and how much sooner the last of them is."""
    jit, _, cache, _, best = rows
    return [
        HEADER,
        *map(str, rows),
        f"  The last comes {_sooner(best, jit, 'jax.jit')},",
        f"  and {_sooner(best, cache, 'jax.jit with a warm cache')}.",
    ]


def _row(way: str, reports: Sequence[Report]) -> Row:
    first, last = (tuple(report[key] for report in reports) for key in ("first", "last"))
    traced, compiled = (max(r["counts"][key] for r in reports) for key in ("traced", "compiled"))
    return Row(way, first, last, traced, compiled)


def _sooner(row: Row, than: Row, name: str) -> str:
    """Return the median of the rounds' ratios, the lowest and the highest."""
    ratios = [other / mine for mine, other in zip(row.first, than.first, strict=True)]
    lowest, highest = min(ratios), max(ratios)
    return f"{median(ratios):.1f} times sooner than {name} ({lowest:.1f} to {highest:.1f})"


def problems(reports: Mapping[str, Sequence[Report]]) -> Iterator[str]:
    """All ways wrote the same, and none did what its line says it doesn't do."""
    expected = reports["jit"][0]["scores"]
    for way, found in reports.items():
        if not all(all_close(report["scores"], expected) for report in found):
            yield f"the scores of {LABELS[way]} differ from those of jax.jit"
    aot = [report["counts"] for way in PRECOMPILED for report in reports[way]]
    jitted = dict(reports["jit"][0]["counts"])
    del jitted["from cache"]
    yield from count_problems(aot, jitted)
    if any(report["jax"] for report in reports["numpy"]):
        yield 'jax was imported with arrays="numpy", so what it compiled was not counted'
    if any(report["counts"]["compiled"] for report in reports["cache"]):
        yield "jax's cache was not warm"
