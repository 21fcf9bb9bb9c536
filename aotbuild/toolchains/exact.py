"""A toolchain as another machine can have it: exact versions of everything that a worker imports.

That machine uses its running environment where this has the same versions, else uv makes one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from aotbuild.errors import PlanError
from aotbuild.format.dist_info import installed_version
from aotbuild.toolchains.environments import by_uv, make_environments
from aotbuild.toolchains.lock import local_files, read_lock
from aotbuild.toolchains.resolve import resolved
from aotbuild.toolchains.toolchain import Toolchain, running_toolchain
from aotbuild.toolchains.uv import running_python
from aotbuild.toolchains.wanted import Wanted, worker_requirements

_OWN = "aotbuild"


@dataclass(frozen=True)
class Pin:
    """A distribution and its exact version; `url` if it did not come from a package index."""

    name: str
    version: str
    url: str | None = None

    @property
    def requirement(self) -> str:
        """What an installer needs."""
        return f"{self.name} @ {self.url}" if self.url else f"{self.name}=={self.version}"

    @property
    def is_local(self) -> bool:
        """Whether it came from a folder or file of its machine."""
        return self.url is not None and self.url.startswith("file:")

    @property
    def is_here(self) -> bool:
        """Whether the running environment has it."""
        return installed_version(self.name) == self.version


@dataclass(frozen=True)
class ExactToolchain:
    """What `Toolchain` says of one machine, for any: versions, and the text of a lock if known.

    `python` is like `3.11`. `pins` are all distributions that a worker may import.
    """

    jax: str
    python: str
    pins: tuple[Pin, ...]
    lock: str | None = None

    @classmethod
    def of(cls, toolchain: Toolchain, project: Iterable[str]) -> ExactToolchain:
        """Return a toolchain of this machine; `project` are the project's dependencies.

        PlanError where its lock names files of this machine.
        """
        python = ".".join(toolchain.python.split(".")[:2])
        if toolchain.recipe is None:
            wanted = ("jax", "jaxlib", *(name for name, _ in toolchain.plugins))
            pins = installed_pins((*wanted, *worker_requirements(), *project))
            return cls(toolchain.jax, python, tuple(pins))
        text = toolchain.recipe.lock
        if files := local_files(text):
            msg = f"the lock of {toolchain} names files of this machine: {', '.join(files)}"
            raise PlanError(msg)
        versions = read_lock(text, "the lock", python).versions
        pins = (Pin(name, version) for name, version in versions if version)
        return cls(toolchain.jax, python, tuple(pins), text)

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form; the inverse of `from_json`."""
        return {**asdict(self), "pins": [asdict(pin) for pin in self.pins]}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> ExactToolchain:
        """Read what `to_json` wrote."""
        return cls(**{**data, "pins": tuple(Pin(**pin) for pin in data["pins"])})

    def here(self, folder: Path, say: Callable[[str], None]) -> Toolchain:
        """Return it on this machine: the running environment, or one that uv makes now.

        uv reads its settings in `folder`. `say` gets what is done. PlanError gives uv's reason.
        """
        missing = [pin for pin in self.pins if not pin.is_here]
        running = running_toolchain(needed=False)
        if running and not missing and self.python == running_python():
            return running
        if local := [pin for pin in missing if pin.is_local]:
            raise PlanError(_local_text(local))
        say(f"asking uv for the environment of the build (jax {self.jax})")
        toolchain = by_uv(self.python, *self._locked(folder))
        make_environments([toolchain], say)
        return toolchain

    def _locked(self, folder: Path) -> tuple[Any, Path | None]:
        if self.lock is not None:
            return read_lock(self.lock, "the lock of the build", self.python), None
        requirements = tuple(pin.requirement for pin in self.pins)
        title = f"the environment of the build (jax {self.jax})"
        wanted = Wanted(title, self.jax, self.python, requirements, (), "")
        # The machine that builds has installed all of it.
        return resolved(wanted, self.python, folder, lambda _: None, build_sources=True)


def installed_pins(requirements: Iterable[str]) -> Iterator[Pin]:
    """Yield what is installed of requirements, and of what those require, sorted by name.

    aotbuild is not among them: workers import that of their machine's build.
    """
    found: dict[str, Pin] = {}
    seen: set[tuple[str, str]] = {(_OWN, "")}
    waiting = [
        requirement for requirement in map(Requirement, requirements) if _applies(requirement)
    ]
    while waiting:
        requirement = waiting.pop()
        name = str(canonicalize_name(requirement.name))
        for extra in ("", *requirement.extras):
            if (name, extra) in seen or name == _OWN:
                continue
            seen.add((name, extra))
            try:
                distribution = metadata.distribution(name)
            except metadata.PackageNotFoundError:
                continue
            found[name] = Pin(name, distribution.version, _url(distribution))
            needed = map(Requirement, distribution.requires or ())
            waiting += [each for each in needed if _applies(each, extra)]
    yield from (found[name] for name in sorted(found))


def _applies(requirement: Requirement, extra: str = "") -> bool:
    return requirement.marker is None or requirement.marker.evaluate({"extra": extra})


def _url(distribution: metadata.Distribution) -> str | None:
    """Return where a distribution came from (PEP 610); None for a package index."""
    text = distribution.read_text("direct_url.json")
    if not text:
        return None
    data = json.loads(text)
    url, vcs = str(data["url"]), data.get("vcs_info")
    return f"{vcs['vcs']}+{url}@{vcs['commit_id']}" if vcs else url


def _local_text(pins: Iterable[Pin]) -> str:
    lines = "".join(f"\n  {pin.name} {pin.version}, from {pin.url}" for pin in pins)
    return (
        "the build machine has installed these from its own files, so this machine cannot install "
        f"them{lines}\nInstall the same versions here."
    )
