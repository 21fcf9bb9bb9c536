"""The bench for GPUs, on the CPU: its functions are right, and the whole command runs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from gpu_bench.cases import CASES, specs
from support.processes import ROOT, clean_environment, fresh

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


@pytest.mark.process
@pytest.mark.any_jax
def test_the_whole_command(tmp_path: Path) -> None:
    """Build for this CPU, break one executable, and run the copy from another folder."""
    names = "matmul_int8,decode,top_k"
    environment, folder = clean_environment(), tmp_path / "built"
    build = [sys.executable, GPU / "build.py", folder, "--platform", "cpu", "--functions", names]
    subprocess.run(build, check=True, env=environment, capture_output=True)
    plan = json.loads((folder / "functions.json").read_text())
    plan["functions"]["matmul_int8"]["manifest"] = "not_built"
    (folder / "functions.json").write_text(json.dumps(plan))
    run = [sys.executable, folder / "benchmarks" / "gpu" / "run.py", folder, "--rounds", "1"]
    results = tmp_path / "results"
    done = subprocess.run(
        [*run, "--out", results], check=True, env=environment, capture_output=True, text=True,
        cwd=tmp_path,
    )  # fmt: skip
    (file,) = results.iterdir()
    document = json.loads(file.read_text())
    ways = {name: function["ways"] for name, function in document["functions"].items()}
    assert ways["matmul_int8"]["untuned"][0]["failed"].startswith("PackageNotFound: ")
    assert "failed" not in ways["matmul_int8"]["jit"][0]
    for name in ("decode", "top_k"):
        assert [way[0]["compilations"] for way in ways[name].values()] == [0, 1, 1]
    starts = document["starts"]["top_k"]
    assert all(each["start"] > 0 for found in starts.values() for each in found)
    assert "not right: matmul_int8 (failed: PackageNotFound: " in done.stdout
    assert "- untuned, compilations: 0" in done.stdout
