"""Run the experiments of this folder: a line for each, and how many of each class held.

    python tests/faults/run.py [-n auto] [-k NAME] …

Options are those of pytest. The exit code is 0 only if all held; of a run without -k or -m, only if
there are at least 300 experiments and each cause of `causes.py` is among them.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent
sys.path.insert(0, str(FOLDER.parent))

from faults.causes import CAUSES  # noqa: E402 - after the path that it is found by

LEAST = 300
OUTCOMES = {"passed": "held", "failed": "FAILED", "skipped": "not tried here"}


class Experiments:
    """Prints a line per experiment as it ends, whichever process ran it, and counts."""

    def __init__(self) -> None:
        self.outcomes: Counter[tuple[str, str]] = Counter()
        self.causes: set[int] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when != "call" and report.outcome == "passed":
            return
        outcome = OUTCOMES[report.outcome]
        causes = [number for key, number in report.user_properties if key == "cause"]
        self.outcomes[class_of(report.nodeid), outcome] += 1
        if report.outcome == "passed":
            self.causes.update(causes)
        label = f"cause {', '.join(map(str, causes))}" if causes else ""
        name = name_of(report.nodeid)
        print(f"{outcome:<14} {class_of(report.nodeid):<12} {label:<9} {name}", flush=True)

    def pytest_report_teststatus(self, report: pytest.TestReport) -> tuple[str, str, str]:
        """Print no dots between the lines."""
        return report.outcome if report.when == "call" else "", "", ""

    def summary(self) -> str:
        """Return the counts by class and in all."""
        classes = sorted({name for name, _ in self.outcomes})
        lines = [f"{name:<12} {self._counts(name)}" for name in classes]
        return "\n".join([*lines, f"{'all':<12} {self._counts()}"])

    def _counts(self, wanted: str = "") -> str:
        found: Counter[str] = Counter()
        for (name, outcome), count in self.outcomes.items():
            if wanted in ("", name):
                found[outcome] += count
        said = [f"{found[word]} {word}" for word in OUTCOMES.values() if found[word]]
        return f"{found.total():>4} experiments: {', '.join(said)}"


def class_of(nodeid: str) -> str:
    """Return the class of an experiment: `records` of `tests/faults/test_records.py::…`."""
    return Path(nodeid.split("::")[0]).stem.removeprefix("test_")


def name_of(nodeid: str) -> str:
    """Return what an experiment tries, as words."""
    function, _, case = nodeid.split("::")[-1].partition("[")
    words = re.sub(r"^test_", "", function).replace("_", " ")
    return f"{words}: {case[:-1]}" if case else words


def main(arguments: list[str]) -> int:
    """Run pytest; return the exit code."""
    experiments = Experiments()
    options = ["-q", "--no-header", "--show-capture=no", "-p", "no:cacheprovider", *arguments]
    code = int(pytest.main([str(FOLDER), *options], plugins=[experiments]))
    print(experiments.summary())
    if {"-k", "-m"} & set(arguments):
        return code
    missing = sorted(set(CAUSES) - experiments.causes)
    if missing:
        print(f"no experiment held for the causes {', '.join(map(str, missing))}")
    if experiments.outcomes.total() < LEAST:
        print(f"fewer than {LEAST} experiments")
        code = code or 1
    return code or int(bool(missing))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
