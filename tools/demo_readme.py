"""The result of the demo as the README shows it."""

import os
import platform
from collections.abc import Sequence
from pathlib import Path

import demo_lm
from demo_commands import ROOT

README = ROOT / "README.md"
BEGIN, END = "```text\n", "```\n"


def result(rows: Sequence[demo_lm.Row], built: Sequence[str]) -> list[str]:
    """Return what the demo says at its end."""
    return [
        "A language model of 30 layers, from process start to its first token:",
        *demo_lm.table(rows),
        f"  Medians of {demo_lm.ROUNDS} processes, lowest and highest in brackets; {machine()}.",
        "  jax.monitoring counts. What jax finds in its cache is traced, and not compiled.",
        "",
        "The same model, built on this machine for others:",
        *built,
    ]


def machine() -> str:
    """Return what the figures depend on; a load above 2 is other work on the machine."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text().splitlines() if path.exists() else []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    cpus, load = len(os.sched_getaffinity(0)), os.getloadavg()[0]
    return f"{cpus} CPUs ({next(names, platform.machine())}), load {load:.0f}"


def write(lines: Sequence[str]) -> None:
    """Put the result into the README, in place of the earlier one: its first block of text."""
    text = README.read_text(encoding="utf-8")
    before, begin, rest = text.partition(BEGIN)
    after = rest.partition(END)[2]
    assert begin, f"README.md has no {BEGIN!r}"
    README.write_text(before + BEGIN + "".join(f"{line}\n" for line in lines) + END + after)
