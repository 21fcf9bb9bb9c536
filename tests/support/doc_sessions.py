"""A session of commands that prints what the tutorial shows, with the files that it has."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from zipfile import ZipFile

from aotbuild.platforms.cpu import host as cpuinfo
from aotbuild.platforms.cpu.checks import best_level
from support.doc_pages import DOCS, text_of

TUTORIAL = DOCS / "tutorial" / "first-wheel.md"
LEVEL = best_level(cpuinfo.architecture(), cpuinfo.features()) or "x86-64-v2+avx"
# A file of a page is named by its title, or by a comment in its first line.
NAMED = re.compile(
    r'^```\w+(?: title="([^"]+)"\n|\n# (\S+\.py)\n)(.*?)^```', re.MULTILINE | re.DOTALL
)


class Place:
    """A folder with a project, and what commands that ran in it printed, by command."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.printed: dict[str, list[str]] = defaultdict(list)
        root.mkdir()

    def write(self, name: str, text: str) -> None:
        """Write a file of the project; a module makes its folder a package."""
        path = self.root / name
        path.parent.mkdir(exist_ok=True)
        if path.suffix == ".py" and path.parent != self.root:
            (path.parent / "__init__.py").touch()
        path.write_text(text, encoding="utf-8")

    def run(self, command: str, code: int = 0) -> None:
        """Run a command of a page with the tools of this environment, none of its settings."""
        settings = ("PYTHON", "AOTBUILD_FALLBACK", "JAX_", "XLA_")
        environment = {k: v for k, v in os.environ.items() if not k.startswith(settings)}
        environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
        # The environment of the tests has all that an isolated one would get.
        environment |= {"PIP_NO_BUILD_ISOLATION": "0", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
        done = subprocess.run(
            ["bash", "-c", command],
            capture_output=True, text=True, env=environment, cwd=self.root, timeout=300,
        )  # fmt: skip
        assert done.returncode == code, done.stdout + done.stderr
        self.keep(command, done.stderr + done.stdout)

    def keep(self, command: str, text: str) -> None:
        text = text.replace(str(self.root.parent), "…").replace(LEVEL, "x86-64-v4")
        self.printed[command].append(text.replace(LEVEL.upper(), "X86-64-V4"))


def files_of(page: Path) -> dict[str, list[str]]:
    """Return the texts that a page has for each file."""
    files = defaultdict(list)
    for title, comment, text in NAMED.findall(text_of(page)):
        files[title or comment].append(text)
    return files


def tutorial(place: Place) -> None:
    """Do what the tutorial does."""
    files = files_of(TUTORIAL)
    for name in ("pyproject.toml", "mypkg/model.py", "call.py"):
        place.write(name, files[name][0])
    [manifest] = files["aot.yaml"]
    place.write("aot.yaml", manifest.replace("f32[batch,16]", "f32[batc,16]"))
    place.run("aotbuild plan", code=3)
    place.write("aot.yaml", manifest)
    for command in (
        "aotbuild plan",
        "pip wheel . --no-deps -w dist",
        "aotbuild verify dist/*.whl",
        "pip install --quiet --no-deps --target run/site dist/mypkg-*.whl && mkdir run/bin",
    ):
        place.run(command)
    (wheel,) = (place.root / "dist").iterdir()
    with ZipFile(wheel) as archive:
        place.keep("METADATA", archive.read("mypkg-0.1.0.dist-info/METADATA").decode())
    place.write("run/bin/python", f'#!/bin/sh\nPYTHONPATH=run/site exec {sys.executable} "$@"\n')
    (place.root / "run" / "bin" / "python").chmod(0o755)
    place.run("run/bin/python call.py")
    place.write("call.py", files["call.py"][0] + files["call.py, last line"][0])
    place.run("run/bin/python call.py", code=1)
    place.run("AOTBUILD_FALLBACK=jit run/bin/python call.py")
