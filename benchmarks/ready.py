"""Makes ready what is measured: data, environments and artifacts; says what is not available."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter

from benchmarks.models.data import write_data
from benchmarks.places import ARTIFACTS, DATA
from benchmarks.process import run_plain
from benchmarks.registry import System
from benchmarks.venvs import Unavailable, make_environment

_BUILT = "built.json"


@dataclass
class Ready:
    """Environments and artifacts that were made, and the reasons of those that could not be."""

    pythons: dict[str, Path] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)

    def python(self, environment: str) -> Path:
        """Return the Python of an environment; each is made, or fails, once."""
        if environment in self.reasons:
            raise Unavailable(self.reasons[environment])
        if environment not in self.pythons:
            try:
                self.pythons[environment] = make_environment(environment)
            except Unavailable as err:
                self.reasons[environment] = f"environment {environment}: {err}"
                raise Unavailable(self.reasons[environment]) from err
        return self.pythons[environment]

    def systems(self, model: str, systems: list[System], reasons: dict[str, str]) -> list[System]:
        """Return those whose artifact of a model is there; adds why the others are not."""
        write_data(model, DATA / model)
        there = []
        for system in systems:
            if model not in system.models:
                continue
            try:
                self._build(system, model)
                there.append(system)
            except Unavailable as err:
                reasons[system.name] = str(err)
                print(f"  {system.name}: not available: {err}", flush=True)
        return there

    def _build(self, system: System, model: str) -> None:
        """Build the artifact of a system unless it is there, built by the same environment."""
        self.python(system.environment)
        folder = system.artifact_folder(model)
        if not system.builder:
            folder.mkdir(parents=True, exist_ok=True)
            return
        python = self.python(system.build_environment or system.environment)
        made_with = (python.parent.parent / "requirements.txt").read_text()
        command = system.build_command(python, model)
        note = note_of(folder)
        if note.get("command") == command and note.get("made_with") == made_with:
            return
        print(f"  building {folder.relative_to(ARTIFACTS)}", flush=True)
        shutil.rmtree(folder, ignore_errors=True)
        start = perf_counter()
        run_plain(command)
        note = {
            "build_s": perf_counter() - start,
            "size_mb": size_mb(folder),
            "command": command,
            "made_with": made_with,
        }
        _note_path(folder).write_text(json.dumps(note, indent=1))


def note_of(folder: Path) -> dict[str, object]:
    """Return what is known of a built artifact; empty if it is not there."""
    path = _note_path(folder)
    note: dict[str, object] = json.loads(path.read_text()) if path.exists() else {}
    return note


def _note_path(folder: Path) -> Path:
    # Beside the folder: an artifact is what its system made, and nothing else.
    return folder.with_name(f"{folder.name}.{_BUILT}")


def size_mb(folder: Path) -> float:
    """Return the size of the files of a folder in MB."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return sum(path.stat().st_size for path in files) / 1e6
