"""A project that is built several times, to see which of its functions are traced again."""

from __future__ import annotations

from pathlib import Path

import pytest

from aotbuild.build.events import Event, UnitDone
from aotbuild.build.pack import Package, build_package
from aotbuild.build.plan import make_plan
from aotbuild.build.sources import find_sources
from aotbuild.manifest import load_manifest
from aotbuild.toolchains.toolchain import probe
from support.projects import MANIFEST

# For modules that read what is beside them.
HERE = "from pathlib import Path\nHERE = Path(__file__).parent\n"


class Place:
    """A project with a store, and folders of modules beside it."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.root, self.store, self.patch = folder / "project", folder / "store", patch
        self.early, self.late = folder / "early", folder / "late"
        self.installed = folder / "site-packages"
        for path in (self.installed, self.late, self.early):
            path.mkdir()
            patch.syspath_prepend(str(path))
        patch.setenv("AOTBUILD_STORE", str(self.store))

    def write(self, name: str, text: str) -> None:
        """Write a file below the project, or below a folder beside it (`../late/x.py`)."""
        (self.root / name).write_text(text, encoding="utf-8")

    def build(self, out: str = "out") -> tuple[set[str], Package]:
        """Build; return the labels of the units that were compiled, and the package."""
        done, package = self._build(out)
        return {_label(each) for each in done if not each.stored}, package

    def _build(self, out: str) -> tuple[list[UnitDone], Package]:
        done: list[UnitDone] = []

        def listen(event: Event) -> None:
            if isinstance(event, UnitDone):
                done.append(event)

        manifest = load_manifest(self.root / MANIFEST)
        plan, sources = make_plan(manifest, probe()), find_sources(self.root, manifest.package)
        folder = self.root.parent / out / "_aot"
        package = build_package(plan, sources, folder, listen)
        return done, package

    def traced(self) -> set[str]:
        """Build; return the functions that were traced."""
        return {label.partition("(")[0] for label in self.build()[0]}


def _label(done: UnitDone) -> str:
    return str(done.unit).partition(" for ")[0]


def manifest(names: list[str], more: str = "") -> str:
    lines = [f'  {name}: {{call: "proj.{name}:f", args: [{{x: "f32[2]"}}]}}' for name in names]
    head = "version: 1\npackage: proj\ndefaults: {verify: {golden: never}}\nfunctions:\n"
    return head + "\n".join(lines) + "\n" + more
