"""One wheel for everything: two toolchains, CPUs, GPUs and TPU slices, made by `pip wheel`."""

from __future__ import annotations

import json
import subprocess
from email.parser import Parser
from pathlib import Path
from zipfile import ZipFile

import pytest
from packaging.requirements import Requirement
from support.cli import run
from support.installs import build_wheel, install_by_uv
from support.levels import HAS_V4
from support.projects import copy_project

from aotbuild.toolchains.uv import find_python
from aotbuild.verify.api import verify

pytestmark = [pytest.mark.wheel, pytest.mark.any_jax]

MANIFEST = "aot.everywhere.yaml"
OLD, THIRD, NEW = "0.10.2", "0.11.0", "0.12.0.1"
# The newest jax needs 3.12; 3.11 is the lowest that aotbuild has.
NEWER_PYTHON = next((v for v in ("3.12", "3.13") if find_python(v)), "")

CALL = """
import jax
import numpy as np
events = []
jax.monitoring.register_event_duration_secs_listener(
    lambda name, *_, **__: events.append(name) if "/compile/" in name else None)
import aotbuild
from digits.data import load_params
lib, params = aotbuild.load("digits"), load_params()
x = np.random.default_rng(0).random((32, 8, 8), np.float32)
out = lib.predict(params, x)
out.block_until_ready()
assert not events, events
from digits.model import predict
np.testing.assert_allclose(out, jax.jit(predict)(params, x), atol=1e-5)
assert events, "the counter counts nothing"
print("native beside jaxlib", __import__("jaxlib").__version__)
"""


@pytest.fixture(scope="module")
def newer() -> str:
    if not NEWER_PYTHON or find_python("3.11") is None:
        pytest.skip("needs Python 3.11 and one of 3.12 and 3.13")
    return NEWER_PYTHON


@pytest.fixture(scope="module")
def wheel(newer: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = copy_project("../../example_project", tmp_path_factory.mktemp("project"))
    text = (root / MANIFEST).read_text()
    for shown, here in (
        ('python: "3.12"', f'python: "{newer}"'),
        (", x86-64-v4]", f"{', x86-64-v4' * HAS_V4}]"),
    ):
        assert shown in text
        text = text.replace(shown, here)
    (root / MANIFEST).write_text(text)
    return build_wheel(root, tmp_path_factory.mktemp("wheels"), AOTBUILD_MANIFEST=MANIFEST)


def environment(folder: Path, version: str, links: Path, *requirements: str | Path) -> Path:
    """Make an environment for a version of Python and return its Python."""
    found = find_python(version)
    assert found is not None
    return install_by_uv(folder, *requirements, links=links, python=found.path)


def call(python: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    clean = {"PATH": "/usr/bin:/bin", "JAX_PLATFORMS": "cpu", "HOME": str(folder)}
    command = [python, "-P", "-c", CALL]
    return subprocess.run(command, capture_output=True, text=True, env=clean, cwd=folder)


class TestTheWheel:
    def test_each_target_is_in_it(self, wheel: Path) -> None:
        document = json.loads(run("inspect", wheel, "--json").stdout)
        assert (document["jaxlib"], document["totals"]["executables"]) == (f"{OLD}, {NEW}", 19)
        found = {
            (function["name"], item["target"], item["requires"]["jaxlib"])
            for function in document["functions"]
            for signature in function["signatures"]
            for item in signature["executables"]
        }
        native = {
            ("predict", "cpu:x86-64-v3:1"),
            *([("predict", "cpu:x86-64-v4:1")] if HAS_V4 else []),
            ("predict", "cuda:h100-sxm:1"),
            ("predict", "cuda:h200:1"),
            ("predict", "tpu:v5e:2x2:1"),
            ("predict", "tpu:v6e:2x4:1"),
            ("predict_on_4", "tpu:v5e:2x2:4"),
            ("predict_on_8", "tpu:v6e:2x4:8"),
        }
        by_jaxlib = {
            jaxlib: {
                (name, target.partition("@")[0])
                for name, target, version in found
                if version == jaxlib
            }
            for jaxlib in (OLD, NEW)
        }
        assert by_jaxlib == {OLD: native, NEW: native}
        portable = {(name, target) for name, target, version in found if version is None}
        assert portable == {
            ("predict", "portable:cpu,cuda,tpu:1"),
            ("predict_on_4", "portable:cpu,cuda,tpu:4"),
            ("predict_on_8", "portable:cpu,cuda,tpu:8"),
        }

    def test_it_is_whole(self, wheel: Path) -> None:
        report = verify(str(wheel), load=False)
        assert report.passed, report

    def test_it_requires_exactly_what_it_ships(self, wheel: Path) -> None:
        with ZipFile(wheel) as archive:
            (name,) = (n for n in archive.namelist() if n.endswith("/METADATA"))
            parsed = Parser().parsestr(archive.read(name).decode())
        stated = map(Requirement, parsed.get_all("Requires-Dist"))
        needed = {
            item.name: item.specifier
            for item in stated
            if item.marker is None or item.marker.evaluate({"sys_platform": "linux", "extra": ""})
        }
        for library in ("jax", "jaxlib"):
            versions = ["0.10.1", OLD, "0.10.3", THIRD, "0.12.0", NEW, "0.12.1"]
            assert list(needed[library].filter(versions)) == [OLD, NEW]

    def test_no_path_of_a_toolchain_is_inside(self, wheel: Path) -> None:
        with ZipFile(wheel) as archive:
            for name in archive.namelist():
                assert b"/toolchains/environments/" not in archive.read(name), name


class TestInstalled:
    def test_beside_the_older_jaxlib(self, wheel: Path, links: Path, tmp_path: Path) -> None:
        python = environment(tmp_path / "env", "3.11", links, wheel)
        done = call(python, tmp_path)
        assert done.stdout == f"native beside jaxlib {OLD}\n", done.stderr

    def test_beside_the_newer_jaxlib(
        self, wheel: Path, newer: str, links: Path, tmp_path: Path
    ) -> None:
        python = environment(tmp_path / "env", newer, links, wheel)
        done = call(python, tmp_path)
        assert done.stdout == f"native beside jaxlib {NEW}\n", done.stderr
