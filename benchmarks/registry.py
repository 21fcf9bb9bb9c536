"""The systems that are measured, as `systems.toml` lists them."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from benchmarks.places import ARTIFACTS, DATA, HERE

MODELS = ("transformer", "digits", "mjx")


@dataclass(frozen=True)
class System:
    """One way from an artifact to a result. See the head of `systems.toml`."""

    name: str
    title: str
    environment: str
    script: str
    models: tuple[str, ...]
    builder: str = ""
    build_environment: str = ""
    artifact: str = ""
    arguments: tuple[str, ...] = ()
    run_arguments: tuple[str, ...] = ()
    build_arguments: tuple[str, ...] = ()
    peer: bool = False
    slow: bool = False

    @property
    def calls(self) -> bool:
        """Whether it computes anything."""
        return self.name != "floor"

    def artifact_folder(self, model: str) -> Path:
        """Return where its artifact of a model is."""
        return ARTIFACTS / model / (self.artifact or self.name)

    def run_command(self, python: Path, model: str, *more: str) -> list[str]:
        """Return the command of one measured process."""
        given = (*self.arguments, *self.run_arguments, *more)
        return [str(python), str(HERE / self.script), *self._files(model), *given]

    def build_command(self, python: Path, model: str) -> list[str]:
        """Return the command that makes its artifact."""
        given = (*self.arguments, *self.build_arguments)
        return [str(python), str(HERE / self.builder), *self._files(model), *given]

    def _files(self, model: str) -> list[str]:
        data = DATA / model
        return [
            *("--model", model, "--artifact", str(self.artifact_folder(model))),
            *("--weights", str(data / "weights.npz"), "--inputs", str(data / "inputs.npz")),
        ]


def read_systems(path: Path = HERE / "systems.toml") -> list[System]:
    """Return the systems of a file in its order; raises ValueError where an entry is wrong."""
    tables = tomllib.loads(path.read_text())
    systems = [_system(name, table) for name, table in tables.items()]
    for system in systems:
        for file in filter(None, (system.script, system.builder)):
            if not (path.parent / file).is_file():
                msg = f"{path.name}: {system.name}: no such file: {file}"
                raise ValueError(msg)
    return systems


def _system(name: str, table: dict[str, Any]) -> System:
    known = {field.name for field in fields(System)} - {"name"}
    wrong = sorted(set(table) - known) + sorted(set(table.get("models", ())) - set(MODELS))
    missing = [key for key in ("title", "environment", "script", "models") if key not in table]
    if wrong or missing:
        msg = f"systems.toml: {name}: unknown {wrong}, missing {missing}"
        raise ValueError(msg)
    values: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value for key, value in table.items()
    }
    return System(name=name, **values)
