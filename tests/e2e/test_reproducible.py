"""Two builds of one project give one wheel, to the byte, wherever and by whomever it is built."""

from __future__ import annotations

import os
from dataclasses import dataclass
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from zipfile import ZipFile

import pytest
from support.installs import build_wheel
from support.levels import OTHER_LEVEL
from support.projects import copy_project

pytestmark = [pytest.mark.wheel, pytest.mark.any_jax]

# Golden outputs, and a mesh for collectives. Loops that XLA compiles into
# one kernel over several buffers (scan, random numbers) are left out: the order of their buffers
# comes from a hash table with another seed in each process.
MANIFEST = """\
version: 1
package: digits
targets:
  - cpu: {{isa: [x86-64-v3, {level}]}}
  - portable: {{platforms: [cpu, cuda, tpu]}}
toolchains: [{{jax: {jax}}}]
functions:
  predict:
    call: digits.model:predict
    args:
      - params: {{like: "digits.model:load_params"}}
      - images: f32[8,8,8]
  order:
    call: digits.walk:order
    args: [x: 'f32[64]']
  spread:
    call: digits.walk:spread
    args: [x: 'f32[8,64]']
    mesh: {{data: 4}}
    in_shardings: {{x: [data]}}
    out_shardings: [data]
"""
WALK = """\
import jax
import jax.numpy as jnp

def order(x):
    return jnp.sort(x), jnp.fft.fft(x)

def spread(x):
    return x - x.mean(axis=0)
"""


@dataclass(frozen=True)
class Builder:
    """Somebody who builds: where, with how many compilers, and with which habits."""

    folder: Path
    jobs: int
    umask: int
    zone: str
    locale: str

    def wheel(self) -> Path:
        """Build the project's wheel."""
        before = os.umask(self.umask)
        try:
            root = self._project()
            return build_wheel(
                root,
                self.folder / "out",
                AOTBUILD_JOBS=str(self.jobs),
                HOME=str(self.folder / "home"),
                TMPDIR=str(self.folder / "temporary"),
                USER=self.folder.name,
                TZ=self.zone,
                LC_ALL=self.locale,
            )
        finally:
            os.umask(before)

    def _project(self) -> Path:
        for name in ("home", "temporary"):
            (self.folder / name).mkdir(parents=True)
        root = copy_project("../../example_project", self.folder)
        (root / "aot.yaml").write_text(MANIFEST.format(level=OTHER_LEVEL, jax=version("jax")))
        (root / "digits" / "walk.py").write_text(WALK)
        # As a checkout under that umask has it; copies keep the modes of what they are copies of.
        for path in root.rglob("*"):
            path.chmod((0o777 if path.is_dir() else 0o666) & ~self.umask)
        return root


def digests(wheel: Path) -> dict[str, str]:
    with ZipFile(wheel) as archive:
        return {
            f"{info.filename} {info.external_attr:o} {info.date_time}": sha256(
                archive.read(info)
            ).hexdigest()
            for info in archive.infolist()
        }


def test_two_builders_make_one_wheel(tmp_path: Path) -> None:
    one = Builder(tmp_path / "a", 1, 0o022, "UTC", "C")
    longer = tmp_path / "somebody else's place" / "with a longer name"
    other = Builder(longer, 2, 0o077, "Asia/Tokyo", "C.UTF-8")
    wheel, same = one.wheel(), other.wheel()
    assert wheel.name == same.name
    # What differs, if anything does, before the fact that something does.
    assert digests(wheel) == digests(same)
    assert sha256(wheel.read_bytes()).digest() == sha256(same.read_bytes()).digest()
