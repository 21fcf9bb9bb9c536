"""The small measurements: scripts that stand alone and print JSON, each in one environment."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from benchmarks.places import HERE
from benchmarks.process import run_plain
from benchmarks.ready import Ready
from benchmarks.venvs import Unavailable


@dataclass(frozen=True)
class Script:
    """One script of this folder: its arguments, and those of a quick run."""

    name: str
    title: str
    file: str
    arguments: tuple[str, ...] = ()
    quick: tuple[str, ...] | None = None
    environment: str = "jax"

    @property
    def shown(self) -> str:
        """How it is called, without options."""
        return " ".join((self.file, *(part for part in self.arguments[:1] if part[0] != "-")))

    def command(self, quick: bool) -> list[str]:
        """Return file and arguments."""
        arguments = self.quick if quick and self.quick is not None else self.arguments
        return [str(HERE / self.file), *arguments, "--json"]


def _build(part: str, title: str) -> Script:
    arguments = (part, "--no-limits")
    return Script(f"build_{part}", title, "build.py", arguments, (*arguments, "--quick"))


# A script by itself ends with 1 above its limit; here the bars say what was missed.
_NO_LIMIT = ("--limit", "inf")

SCRIPTS = (
    Script("imports", "import aotbuild", "imports.py", quick=("--rounds", "5")),
    Script(
        "dispatch",
        "A warm call against jax.jit",
        "dispatch.py",
        (
            *("--signatures", "1", "64", "1000", "--backend", "jax", "numpy", "numpy-alone"),
            *("--pairs", "41", *_NO_LIMIT),
        ),
        ("--signatures", "1", "64", "--backend", "jax", "numpy", "--pairs", "15", *_NO_LIMIT),
    ),
    Script(
        "index",
        "Index at scale",
        "index.py",
        ("--rounds", "5"),
        ("--rounds", "1", "--backend", "numpy"),
    ),
    Script("first_call", "The thunk rewrite: load and first call", "first_call.py"),
    Script(
        "server",
        "A server with 8 executables, over JAX's persistent cache",
        "server.py",
        quick=("--rounds", "3"),
    ),
    Script("loading", "The thunk rewrite: loading deep programs", "loading.py"),
    _build("noop", "A build that has nothing to compile"),
    _build("cost", "A build from nothing, and jax.jit"),
    _build("zoo", "Building the slowest programs of the zoo, and jax.jit"),
)


def measure_script(ready: Ready, script: Script, quick: bool) -> dict[str, Any]:
    """Return `{"rows": […]}` of what a script printed, or `{"not_available": reason}`."""
    print(f"{script.name}: {script.title}", flush=True)
    if not (HERE / script.file).exists():
        return {"not_available": f"benchmarks/{script.file} is missing"}
    try:
        python = ready.python(script.environment)
        printed = run_plain([str(python), *script.command(quick)])
        return {"rows": parse_rows(printed)}
    except (Unavailable, ValueError) as err:
        print(f"  not available: {err}", flush=True)
        return {"not_available": str(err)}


def parse_rows(printed: str) -> list[dict[str, Any]]:
    """Return the JSON objects of some output: one document, or one a line among other lines."""
    try:
        document = json.loads(printed)
    except ValueError:
        lines = [line for line in printed.splitlines() if line.startswith("{")]
        document = [json.loads(line) for line in lines]
    rows = document if isinstance(document, list) else [document]
    if not rows:
        msg = "printed no JSON"
        raise ValueError(msg)
    return rows
