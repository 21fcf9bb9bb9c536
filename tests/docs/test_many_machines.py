"""The page on many machines: its jobs name each shard once, in the shells that they run in."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.processes import ROOT

PAGE = (ROOT / "docs" / "how-to" / "many-machines.md").read_text(encoding="utf-8")
BLOCKS: list[Any] = [
    yaml.safe_load(text) for text in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
]


@pytest.mark.process
def test_the_pods_of_an_indexed_job(tmp_path: Path) -> None:
    (job,) = [block for block in BLOCKS if block.get("kind") == "Job"]
    (container,) = job["spec"]["template"]["spec"]["containers"]
    count = job["spec"]["completions"]
    said = [say(tmp_path, [*container["command"], *container["args"]], n) for n in range(count)]
    assert said == [
        f"build --shard {number + 1}/{count} --out /shared/{number}/_aot\n"
        for number in range(count)
    ]


def say(folder: Path, command: list[str], index: int) -> str:
    """Run a pod's command where `aotbuild` prints what it is asked for."""
    program = folder / "aotbuild"
    program.write_text('#!/bin/sh\necho "$@"\n')
    program.chmod(0o755)
    path = f"{folder}{os.pathsep}{os.environ['PATH']}"
    environment = {"PATH": path, "JOB_COMPLETION_INDEX": str(index)}
    return subprocess.run(
        command, env=environment, text=True, check=True, stdout=subprocess.PIPE
    ).stdout


def test_the_matrix() -> None:
    (jobs,) = [block["jobs"] for block in BLOCKS if "jobs" in block]
    numbers = jobs["shard"]["strategy"]["matrix"]["number"]
    (variable,) = [s["env"]["AOTBUILD_SHARD"] for s in jobs["shard"]["steps"] if "env" in s]
    shards = [variable.replace("${{ matrix.number }}", str(number)) for number in numbers]
    assert shards == [f"{number}/{len(numbers)}" for number in range(1, len(numbers) + 1)]
