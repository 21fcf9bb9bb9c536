"""Build the bench's functions on any machine, and put all that run.py needs into one folder.

    python benchmarks/gpu/build.py FOLDER [--jax VERSION ...] [--gpu PRESET ...] [--tuning FILE]
    python benchmarks/gpu/build.py FOLDER --platform cpu          # small, for this machine's CPU

Copy FOLDER to the machine with the GPU, which has jax[cuda13] of one of the versions, and run there
`python FOLDER/benchmarks/gpu/run.py FOLDER`. Functions that cannot be built are left out and named.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import yaml
from gpu_bench.cases import CASES, specs

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
MANIFESTS = ("aot", "convolutions")


def manifest(
    name: str, targets: list[Any], *, small: bool = False, only: list[str] | None = None, **top: Any
) -> dict[str, Any]:
    """Return a manifest of this folder with other targets, and for small arguments if asked for."""
    found: dict[str, Any] = yaml.safe_load((HERE / f"{name}.yaml").read_text(encoding="utf-8"))
    functions = found["functions"]
    for function in [n for n in functions if only is not None and n not in only]:
        del functions[function]
    if small:
        for function, entry in functions.items():
            names = [next(iter(argument)) for argument in entry["args"]]
            pairs = zip(names, specs(function, small=True), strict=True)
            entry["args"] = [{argument: spec} for argument, spec in pairs]
    return {**found, "targets": targets, **top}


def build(project: Path, name: str, document: dict[str, Any], out: Path) -> None:
    """Build one manifest into `out`, without the functions that fail, and name those."""
    file = project / f"{name}.yaml"
    command = [sys.executable, "-m", "aotbuild", "build", str(file), "--out", str(out), "--json"]
    while document["functions"]:
        file.write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")
        done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        if done.returncode == 0:
            return
        failures = json.loads(done.stdout)["error"].get("failures", [])
        failed = {failure["unit"].partition("(")[0] for failure in failures}
        if not failed & {*document["functions"]}:
            sys.exit(f"{name}.yaml cannot be built")
        for failure in failures:
            print(f"left out: {failure['unit']}: {failure['message']}", file=sys.stderr)
        document = {
            **document,
            "functions": {n: f for n, f in document["functions"].items() if n not in failed},
        }


def main() -> int:
    arguments = _parse()
    folder: Path = arguments.folder.resolve()
    small = arguments.platform == "cpu"
    only = arguments.functions.split(",") if arguments.functions else list(CASES)
    only = [name for name in only if not (small and CASES[name].gpu_only)]
    top = {"toolchains": [{"jax": v} for v in arguments.jax]} if arguments.jax else {}
    gpus: dict[str, Any] = {"gpu": arguments.gpu or ["h100-sxm"]}
    variants: dict[str, list[Any]] = {"untuned": ["cpu"] if small else [{"cuda": gpus}]}
    if arguments.tuning:
        variants["tuned"] = [{"cuda": {**gpus, "tuning": "tuned.txt"}}]
    functions: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as temporary:
        project = Path(shutil.copytree(HERE, Path(temporary) / "project"))
        if arguments.tuning:
            shutil.copy(arguments.tuning, project / "tuned.txt")
        for variant, targets in variants.items():
            for name in MANIFESTS:
                document = manifest(name, targets, small=small, only=only, **top)
                if not document["functions"]:
                    continue
                build(project, name, document, folder / variant / name / "_aot")
                for function, entry in document["functions"].items():
                    donated = entry.get("donate", [])
                    functions[function] = {
                        "manifest": name, "call": entry["call"], "donate": donated
                    }  # fmt: skip
    plan = {"platform": arguments.platform, "small": small, "functions": functions}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "functions.json").write_text(json.dumps(plan, indent=1) + "\n", encoding="utf-8")
    ignored = shutil.ignore_patterns("__pycache__")
    for part in ("aotbuild", "benchmarks/gpu"):
        shutil.rmtree(folder / part, ignore_errors=True)
        shutil.copytree(ROOT / part, folder / part, ignore=ignored)
    print(f"copy {folder} to the machine; there: python {folder.name}/benchmarks/gpu/run.py "
          f"{folder.name}")  # fmt: skip
    return 0


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--jax", action="append", default=[], help="default: the one installed")
    parser.add_argument("--gpu", action="append", default=[], help="default: h100-sxm")
    parser.add_argument("--tuning", type=Path, help="results of tuning; builds a second variant")
    parser.add_argument("--platform", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--functions", default="", help="names, by comma; default: all")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
