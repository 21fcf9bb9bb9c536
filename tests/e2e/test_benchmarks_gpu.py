"""The bench for GPUs, on the CPU: its functions are right, and the whole command runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from gpu_bench.cases import CASES, specs
from support.processes import ROOT, fresh

GPU = ROOT / "benchmarks" / "gpu"
# Per function: how far its results are from the reference, what is allowed, and how far twice them.
RIGHT = """
import json, sys
import jax
from gpu_bench.cases import CASES, arguments, map_leaves
from one import difference, jitted, reference, wide
import numpy as np
from pathlib import Path
functions, kept = json.loads(sys.argv[1]), Path("kept.npz")
found = {}
for name, function in functions.items():
    case, given = CASES[name], arguments(name, small=True)
    right = reference(case, function, given)
    np.savez(kept, *jax.tree.leaves(right))
    results = map_leaves(np.asarray, jitted(function)(*given))
    apart = difference(case.seen(map_leaves(wide, results)), kept, results)
    doubled = map_leaves(lambda x: 2 * wide(x), results)
    found[name] = [apart, case.tolerance, difference(case.seen(doubled), kept, results)]
print(json.dumps(found))
"""


def functions() -> dict[str, dict[str, object]]:
    """Return the entries of both manifests."""
    files = [yaml.safe_load((GPU / f"{n}.yaml").read_text()) for n in ("aot", "convolutions")]
    return {name: entry for file in files for name, entry in file["functions"].items()}


def test_manifests_have_the_arguments() -> None:
    found = functions()
    assert list(found) == list(CASES)
    for name, entry in found.items():
        written = [next(iter(argument.values())) for argument in entry["args"]]
        assert written == specs(name, small=False), name


@pytest.mark.process
@pytest.mark.any_jax
def test_functions_are_right(tmp_path: Path) -> None:
    """Each is within its tolerance of its reference; twice its results are not."""
    entries = {n: e for n, e in functions().items() if not CASES[n].gpu_only}
    wanted = {name: {"donate": [], **entry} for name, entry in entries.items()}
    code = f"import sys; sys.path.insert(0, {str(GPU)!r})\n{RIGHT}"
    found = fresh(code, json.dumps(wanted), path=tmp_path)
    assert list(found) == list(wanted)
    for name, (apart, tolerance, doubled) in found.items():
        assert apart["wrong"] == 0, name
        assert apart["error"] <= tolerance, name
        assert doubled["wrong"] or doubled["error"] > tolerance, name
