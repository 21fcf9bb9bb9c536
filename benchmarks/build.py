"""Measure building: what a build costs that has nothing to do, and one from nothing.

Prints text, or a JSON line for each part. Ratios are of builds that take turns in one run. Ends
with 1 if a figure is above its limit; `--no-limits` only prints.

    python benchmarks/build.py [noop] [cost] [zoo] [--quick] [--json] [--no-limits]
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

_ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(_ROOT))

from benchmarks.building import cost, noop, zoo  # noqa: E402
from benchmarks.building.limits import LIMITS  # noqa: E402

PARTS = {"noop": noop, "cost": cost, "zoo": zoo}


def main() -> int:
    """Run the parts that are named, or all; return 1 if a limit is not kept."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}")
    parser.add_argument("--quick", action="store_true", help="small projects, few rounds")
    parser.add_argument("--no-limits", action="store_true")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if unknown := sorted(set(options.parts) - PARTS.keys()):
        parser.error(f"no such part: {', '.join(unknown)}; there are {', '.join(PARTS)}")
    problems = []
    for name in options.parts or PARTS:
        part = PARTS[name]
        row = part.measure(options.quick)
        problems += [problem for limit in LIMITS.get(name, ()) if (problem := limit.problem(row))]
        print(json.dumps(row) if options.json else f"{name}: {part.describe(row)}", flush=True)
    for problem in problems if not options.no_limits else ():
        print(f"failed: {problem}", file=sys.stderr)
    return int(bool(problems) and not options.no_limits)


if __name__ == "__main__":
    sys.exit(main())
