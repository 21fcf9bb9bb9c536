"""A toolchain as another machine can have it: exact versions of what a worker imports.

Where the build machine's toolchain is the running environment, the other machine must have
installed the same versions. Where it was made from a lock, uv makes it there, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from aotbuild.errors import PlanError
from aotbuild.format.dist_info import installed_version
from aotbuild.toolchains.environments import by_uv, make_environments
from aotbuild.toolchains.lock import local_files, read_lock
from aotbuild.toolchains.toolchain import Toolchain, running_toolchain
from aotbuild.toolchains.uv import running_python
from aotbuild.toolchains.wanted import worker_requirements

_OWN = "aotbuild"


@dataclass(frozen=True)
class ExactToolchain:
    """What `Toolchain` says of one machine, for any.

    `python` is like `3.11`. `versions` are those of jax, its plugins, what a worker imports and
    what the project requires; `lock` is the text of the lock that the toolchain was made from, if
    it was.
    """

    jax: str
    python: str
    versions: tuple[tuple[str, str], ...]
    lock: str | None = None

    @classmethod
    def of(cls, toolchain: Toolchain, project: Iterable[str]) -> ExactToolchain:
        """Return a toolchain of this machine; `project` are the project's dependencies.

        PlanError where its lock names files of this machine.
        """
        python = ".".join(toolchain.python.split(".")[:2])
        if toolchain.recipe is None:
            wanted = ("jax", "jaxlib", *(name for name, _ in toolchain.plugins))
            found = installed_versions((*wanted, *worker_requirements(), *project))
            return cls(toolchain.jax, python, tuple(sorted(found.items())))
        text = toolchain.recipe.lock
        if files := local_files(text):
            msg = f"the lock of {toolchain} names files of this machine: {', '.join(files)}"
            raise PlanError(msg)
        return cls(toolchain.jax, python, (), text)

    def here(self, say: Callable[[str], None]) -> Toolchain:
        """Return it on this machine: the running environment, or one that uv makes now.

        `say` gets what is done. PlanError if this machine cannot have it.
        """
        if self.lock is not None:
            say(f"asking uv for the environment of the build (jax {self.jax})")
            lock = read_lock(self.lock, "the lock of the build", self.python)
            toolchain = by_uv(self.python, lock, None)
            make_environments([toolchain], say)
            return toolchain
        running = running_toolchain(needed=True)
        assert running is not None, "it is needed"
        expected = {"Python": self.python, **dict(self.versions)}
        found = {name: installed_version(name) for name, _ in self.versions}
        found["Python"] = running_python()
        if problems := [name for name in expected if expected[name] != found[name]]:
            lines = "".join(
                f"\n  {name}: expected {expected[name]}, found {found[name] or 'none'}"
                for name in problems
            )
            msg = (
                f"its environment is not that of the build machine{lines}\nInstall the same "
                "versions, or name the toolchain in the manifest (toolchains:), which uv makes"
            )
            raise PlanError(msg)
        return running


def installed_versions(requirements: Iterable[str]) -> dict[str, str]:
    """Return the versions that are installed of requirements.

    aotbuild is not among them: workers import that of their machine's build.
    """
    parsed = [Requirement(text) for text in requirements]
    names = {
        str(canonicalize_name(each.name))
        for each in parsed
        if each.marker is None or each.marker.evaluate({"extra": ""})
    }
    found = {name: installed_version(name) for name in sorted(names - {_OWN})}
    return {name: version for name, version in found.items() if version is not None}
