"""Runs the commands of a workflow of GitHub, or of GitLab's CI file, on this machine.

What a step runs is run by bash, in order, until one fails. The actions that move files (checkout,
caches, artifacts) are copies here. Everything in `${{ }}` must be known to the test: what is not is
an error, so the files cannot use what nobody has thought of.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import yaml

from support.installs import make_layer

_EXPRESSION = re.compile(r"\$\{\{ (.+?) \}\}")


@dataclass
class Machine:
    """What all jobs have: scratch folders, and programs that stand in for those of the service."""

    root: Path
    project: Path
    links: Path
    programs: Path
    variables: Mapping[str, str]
    log: list[str] = field(default_factory=list)

    def workspace(self) -> Path:
        """Return a checkout of the project."""
        folder = self.root / f"job-{len(list(self.root.glob('job-*')))}"
        shutil.copytree(self.project, folder / "work")
        make_layer(folder / "env")
        return folder / "work"

    def run(self, script: str, work: Path, variables: Mapping[str, str]) -> bool:
        """Run a script as CI does; return whether it succeeded."""
        own = (self.programs, work.parent / "env" / "bin", Path(sys.executable).parent)
        kept = ("PIP_COMPILE", "PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL")
        ours = ("AOTBUILD_TOOLCHAINS", "AOTBUILD_JOBS")
        environment = {
            **{name: os.environ[name] for name in (*kept, *ours) if name in os.environ},
            "PATH": ":".join([*map(str, own), "/usr/bin:/bin"]),
            "HOME": str(work.parent),
            "PIP_FIND_LINKS": " ".join(
                [self.links.as_uri(), *os.environ.get("PIP_FIND_LINKS", "").split()]
            ),
            **self.variables,
            **variables,
        }
        command = ["bash", "-e", "-o", "pipefail", "-c", script]
        done = subprocess.run(command, cwd=work, env=environment, capture_output=True, text=True)
        self.log.append(f"$ {script}\n{done.stdout}{done.stderr}")
        return done.returncode == 0


class GitHub:
    """Jobs of a workflow. `known` has the value of each expression, as `github.sha`."""

    def __init__(self, machine: Machine, workflow: Path, known: Mapping[str, Any]) -> None:
        self.machine, self.known = machine, dict(known)
        self.workflow = yaml.safe_load(workflow.read_text(encoding="utf-8"))
        self.artifacts, self.caches = machine.root / "artifacts", machine.root / "caches"
        self.summaries: list[str] = []

    def run(self, name: str) -> bool:
        """Run a job, each combination of its matrix; return whether all succeeded."""
        job = self.workflow["jobs"][name]
        axes = job.get("strategy", {}).get("matrix", {})
        combinations = product(*axes.values())
        return all(
            self._run(job, dict(zip(axes, values, strict=True)), index)
            for index, values in enumerate(combinations)
        )

    def _run(self, job: dict[str, Any], matrix: Mapping[str, str], index: int) -> bool:
        work = self.machine.workspace()
        # Before the checkout there is nothing.
        shutil.rmtree(work)
        work.mkdir()
        summary = work.parent / "summary.md"
        known = {**self.known, "github.workspace": str(work), "strategy.job-index": index}
        known |= {f"matrix.{name}": value for name, value in matrix.items()}
        variables = _filled(self.workflow.get("env", {}), known)
        known |= {f"env.{name}": value for name, value in variables.items()}
        variables |= _filled(job.get("env", {}), known)
        variables |= {"GITHUB_ACTIONS": "true", "GITHUB_WORKSPACE": str(work)}
        variables |= {"GITHUB_STEP_SUMMARY": str(summary)}
        succeeded, last = True, []
        for step in job["steps"]:
            condition = _filled({"if": step.get("if", "${{ success() }}")}, {
                **known, "success()": succeeded, "!cancelled()": True,
            })["if"]  # fmt: skip
            if condition == "False" or (not succeeded and step.get("if") is None):
                continue
            given = _filled(step.get("with", {}), known)
            if "run" in step:
                own = _filled(step.get("env", {}), known)
                assert "${{" not in step["run"], "text of others would become a command"
                succeeded &= self.machine.run(step["run"], work, {**variables, **own})
            else:
                last += [*self._act(step["uses"], work, given)]
        for action in last:
            action()
        self.summaries.append(summary.read_text(encoding="utf-8") if summary.exists() else "")
        return succeeded

    def _act(self, uses: str, work: Path, given: Mapping[str, str]) -> Iterator[Callable[[], None]]:
        """Do what an action does; yield what it does after all steps."""
        if uses == "actions/checkout@v4":
            shutil.copytree(self.machine.project, work, dirs_exist_ok=True)
        elif uses == "actions/cache@v4":
            (path,), keys = given["path"].split(), [given["key"], *given["restore-keys"].split()]
            for cache in sorted(self.caches.glob("*"), reverse=True):
                if any(cache.name.startswith(key) for key in keys):
                    shutil.copytree(cache, work / path)
                    break
            yield lambda: _copy(work / path, self.caches / given["key"])
        elif uses == "actions/upload-artifact@v4":
            files = list(work.glob(given["path"]))
            assert files or given["if-no-files-found"] == "ignore", given
            for file in files:
                _copy(file, self.artifacts / given["name"] / file.name)
        elif uses == "actions/download-artifact@v4":
            flat = "name" in given or given.get("merge-multiple") == "True"
            for folder in self.artifacts.glob(given.get("pattern") or given["name"]):
                place = work / given.get("path", ".") / ("." if flat else folder.name)
                shutil.copytree(folder, place, dirs_exist_ok=True)
        else:
            assert uses == "actions/setup-python@v5", uses


class GitLab:
    """Jobs of a CI file. Artifacts of earlier jobs are there in later ones."""

    def __init__(self, machine: Machine, file: Path) -> None:
        self.machine = machine
        self.file = yaml.safe_load(file.read_text(encoding="utf-8"))
        self.artifacts, self.caches = machine.root / "artifacts", machine.root / "caches"

    def run(self, name: str) -> bool:
        """Run a job, each combination of its matrix; return whether all succeeded."""
        job = self.file[name]
        (axes,) = job.get("parallel", {}).get("matrix", [{}])
        combinations = product(*axes.values())
        return all(
            self._run(job, dict(zip(axes, values, strict=True)), index)
            for index, values in enumerate(combinations, 1)
        )

    def _run(self, job: dict[str, Any], matrix: Mapping[str, str], index: int) -> bool:
        work = self.machine.workspace()
        variables = {**self.machine.variables, **matrix}
        variables |= {"CI_PROJECT_DIR": str(work), "CI_NODE_INDEX": str(index)}
        for name, text in {**self.file["variables"], **job.get("variables", {})}.items():
            variables[name] = _expanded(str(text), variables)
        if variables.get("GIT_STRATEGY") == "none":
            shutil.rmtree(work)
            work.mkdir()
        if self.artifacts.exists():
            shutil.copytree(self.artifacts, work, dirs_exist_ok=True)
        cache = job.get("cache")
        key = self.caches / _expanded(cache["key"], variables) if cache else None
        if key and key.exists():
            shutil.copytree(key, work / cache["paths"][0])
        succeeded = self.machine.run("\n".join(job["script"]), work, variables)
        if key:
            _copy(work / cache["paths"][0], key)
        for path in job.get("artifacts", {}).get("paths", []):
            if (work / path).exists():
                _copy(work / path, self.artifacts / path)
        return succeeded


def _filled(texts: Mapping[str, Any], known: Mapping[str, Any]) -> dict[str, str]:
    """Return texts with the values of their expressions; KeyError for one that is not known."""

    def value(match: re.Match[str]) -> str:
        return str(known[match[1]])

    return {name: _EXPRESSION.sub(value, str(text)) for name, text in texts.items()}


def _expanded(text: str, variables: Mapping[str, str]) -> str:
    return re.sub(r"\$(\w+)", lambda match: variables[match[1]], text)


def _copy(source: Path, to: Path) -> None:
    to.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, to, dirs_exist_ok=True)
    else:
        shutil.copy(source, to)
