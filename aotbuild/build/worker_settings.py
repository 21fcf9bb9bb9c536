"""What a worker process is started with: its command, its environment variables, its XLA flags."""

from __future__ import annotations

import json
import locale
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aotbuild.format.target import HOST
from aotbuild.platforms.building import Hardware, Process, description, descriptions
from aotbuild.store.place import VARIABLE
from aotbuild.toolchains.toolchain import Toolchain

_PACKAGE = Path(__file__).resolve().parent.parent
# Flags and settings of the calling shell would change what is compiled; the manifest decides.
_DROPPED_PREFIXES = (
    *("JAX_", "XLA_", "TF_XLA_", "PYTHON"),
    *(prefix for known in descriptions() for prefix in known.device_prefixes),
    *(prefix for known in descriptions() for prefix in known.option_prefixes),
)
# Where Python finds its modules, and nothing that code sees in sys.flags.
_PATHS_OF_PYTHON = frozenset(
    ("PYTHONHOME", "PYTHONNOUSERSITE", "PYTHONPATH", "PYTHONPLATLIBDIR", "PYTHONUSERBASE")
)


@dataclass(frozen=True)
class Settings:
    """What a worker process is started with. Units with equal settings can share a process.

    `platform` is what it compiles for, `cap` what the whole process is capped at, if anything.
    `devices` is how many host devices it has. `hardware` is what all of its jobs compile for, where
    the platform has a process for each.
    """

    toolchain: Toolchain
    platform: str
    cap: str | None
    devices: int
    hoist: bool
    config: tuple[tuple[str, Any], ...]
    env: tuple[tuple[str, str], ...]
    hardware: Hardware | None = None

    @property
    def process(self) -> Process:
        """How the platform wants the process to be run."""
        return description(self.platform).process

    @property
    def xla_flags(self) -> str:
        """The process-wide XLA flags."""
        flags = [f"--xla_force_host_platform_device_count={self.devices}"]
        cap = description(self.platform).cap_flags(self.cap) if self.cap else ()
        return " ".join([*flags, *cap])

    def command(self, import_root: Path) -> list[str]:
        """Return the command of a worker that imports the project's sources from `import_root`.

        The running interpreter imports what its parent does; another one what its environment has.
        """
        path, interpreter = [str(import_root)], self.toolchain.interpreter
        if interpreter is None:
            path += [str(Path(entry).absolute()) for entry in sys.path if entry]
        given = {
            "aotbuild": str(_PACKAGE),
            "path": path,
            "whole": interpreter is None,
            "module": "aotbuild.worker.main",
        }
        # -P: nothing is imported from the script's own folder.
        start = str(_PACKAGE / "worker" / "start.py")
        return [str(interpreter or sys.executable), "-P", start, json.dumps(given)]

    def environment(self, inherited: Mapping[str, str]) -> dict[str, str]:
        """Return the variables of a worker, made from the parent's.

        Only this Python gets those that move its imports, and only the build knows the store.
        """
        left_out = {VARIABLE}
        if self.toolchain.interpreter is not None:
            left_out |= {"PYTHONHOME", "PYTHONPATH", "VIRTUAL_ENV"}
        kept = {k: v for k, v in inherited.items() if is_forwarded(k) and k not in left_out}
        return {
            **kept,
            "XLA_FLAGS": self.xla_flags,
            "JAX_PLATFORMS": HOST,
            # jax reads it while it is imported, so jax.config.update has no effect.
            "JAX_USE_SIMPLIFIED_JAXPR_CONSTANTS": "1" if self.hoist else "0",
            # uv installs no bytecode, and each job would compile what it imports; the project's own
            # modules are always made from their sources.
            **({"PYTHONDONTWRITEBYTECODE": "1"} if sys.dont_write_bytecode else {}),
            "PYTHONHASHSEED": "0",
            # Paths have one form for both: the locale's, or that of UTF-8. Where the locale's is
            # UTF-8, too, code sees no difference between machines.
            "PYTHONUTF8": str(int(encodings()[0] == "utf-8")),
            "PYTHONIOENCODING": "utf-8",
            "AOTBUILD_BUILDING": "1",
            "TF_CPP_MIN_LOG_LEVEL": "2",
            **dict(pair for known in descriptions() for pair in known.worker_variables),
            **dict(self.env),
            **dict(self.process.variables),
            **(description(self.platform).variables(self.hardware) if self.hardware else {}),
        }


def is_forwarded(name: str) -> bool:
    """Return whether a worker inherits a variable of the build's environment."""
    return name in _PATHS_OF_PYTHON or not name.startswith(_DROPPED_PREFIXES)


def encodings() -> tuple[str, str]:
    """Return how files are read if nobody says it, and how with `encoding="locale"`.

    The first is also that of names of files. It was set when Python started, so it is what
    `open` takes, whatever locale was set since.
    """
    return sys.getfilesystemencoding(), locale.getencoding()
