"""What every step of the demo does: make folders and environments, run commands, say how long."""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from textwrap import indent
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
DEMO = ROOT / ".demo"
DIST = DEMO / "dist"  # aotbuild's own wheel
WHEELS = DEMO / "wheels"  # those of the examples
AWAY = DEMO / "away"  # an empty folder to run in, so that nothing is imported from a checkout
FOLDERS = (DIST, WHEELS, AWAY)
PIP = ("-m", "pip", "--disable-pip-version-check")
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


def heading(text: str) -> None:
    """Print the title of a step."""
    print(f"\n{text}", flush=True)


def make_environment(name: str, *requirements: str) -> str:
    """Make a virtual environment with these requirements and return its Python."""
    place = DEMO / name
    python = str(place / "Scripts/python.exe" if os.name == "nt" else place / "bin" / "python")
    timed(f"virtual environment {name}", [sys.executable, "-m", "venv", str(place)])
    if requirements:
        shown = " ".join(each.rpartition("/")[2] for each in requirements)
        timed(f"pip install {shown}", [python, *PIP, "install", *requirements])
    return python


def build_wheel(python: str, project: Path, into: Path, *options: str) -> Path:
    """Build the wheel of a project, and return its path."""
    there = set(into.iterdir())
    shown = " ".join(["pip wheel", *options, str(project.relative_to(ROOT.parent))])
    timed(shown, [python, *PIP, "wheel", "--no-deps", *options, "-w", str(into), str(project)])
    (wheel,) = set(into.iterdir()) - there
    print(f"  {wheel.name}, {wheel.stat().st_size / 1000:,.0f} kB")
    return wheel


def probe(python: str, script: str, way: str, *arguments: str) -> Report:
    """Run a script beside this one in a process of its own and return its report.

    It is told the way to call and the time of its start.
    """
    path = str(Path(__file__).with_name(script))
    report: Report = json.loads(run([python, "-P", path, way, repr(time.time()), *arguments]))
    return report


def timed(what: str, command: Sequence[str]) -> tuple[str, float]:
    """Run a command and print how long it took; return its stdout and the seconds."""
    print(f"  {what} ...", end=" ", flush=True)
    start = time.monotonic()
    printed = run(command)
    seconds = time.monotonic() - start
    print(f"{seconds:.1f} s", flush=True)
    return printed, seconds


def run(command: Sequence[str]) -> str:
    """Run a command away from the checkout and return its stdout; StepFailed if it fails."""
    done = subprocess.run(command, capture_output=True, check=False, **_options())
    if done.returncode:
        raise StepFailed(done)
    return str(done.stdout)


def stream(command: Sequence[str]) -> tuple[str, str, float]:
    """Run a command and print its stderr meanwhile; return stdout, stderr and the seconds."""
    start, said = time.monotonic(), []
    with (
        tempfile.TemporaryFile("w+", encoding="utf-8") as out,
        subprocess.Popen(command, stdout=out, stderr=subprocess.PIPE, **_options()) as process,
    ):
        assert process.stderr is not None
        for line in process.stderr:
            said.append(line)
            print(f"  {line}", end="", flush=True)
        code = process.wait()
        out.seek(0)
        printed = out.read()
    if code:
        raise StepFailed(subprocess.CompletedProcess(command, code, printed, "".join(said)))
    return printed, "".join(said), time.monotonic() - start


def _options() -> dict[str, Any]:
    text = {"text": True, "encoding": "utf-8", "errors": "replace"}
    return {"cwd": AWAY, "env": environment(), **text}


def environment() -> dict[str, str]:
    """Return the caller's variables without foreign ones, and with our wheels for every pip and uv.

    pip's isolated build environments hear of them only this way; it splits the value at spaces,
    so folders are given as URLs. The store is a new one: what was compiled before this demo began
    would make its builds look faster than they are.
    """
    kept = {key: value for key, value in os.environ.items() if not key.startswith(FOREIGN)}
    links = [kept.get("PIP_FIND_LINKS", ""), DIST.as_uri(), WHEELS.as_uri()]
    return kept | {
        "PIP_FIND_LINKS": " ".join(filter(None, links)),
        "PYTHONUTF8": "1",
        "AOTBUILD_STORE": str(DEMO / "store"),
    }
