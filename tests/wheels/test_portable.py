"""`aotbuild split --portable`: a wheel for all other platforms, with the same metadata.

uv takes the metadata of one wheel of a version for those of all.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from attacks import wheels
from packaging.version import Version
from support.cli import run
from support.installs import pip
from support.packages import Built, build, portable
from support.wheel_files import contents, everywhere, for_target, put_wheel, text

import aotbuild
from aotbuild.build.requirements import pins
from aotbuild.errors import WheelRefused
from aotbuild.toolchains.uv import uv_program
from aotbuild.verify.api import Options, verify
from aotbuild.wheels.split import split

X = np.arange(3, dtype=np.float32)
NATIVE = "demo-1.0-py3-none-manylinux_2_27_x86_64.whl"
PORTABLE = "demo-1.0-py3-none-any.whl"
# Not the newest: an installer that misses the pin takes a later one.
JAXLIB = "0.10.1"
REQUIRES = (
    "aotbuild>=0.1,<0.2",
    "flatbuffers",
    *pins("jaxlib", [JAXLIB], native=True, portable=True),
)


@pytest.fixture(scope="module")
def native() -> Built:
    return build("double", lambda x: x * 2, {"x": X})


@pytest.fixture(scope="module")
def built(native: Built) -> list[Built]:
    return [native, portable(native, lambda x: x * 2)]


def changes(tag: str) -> dict[str, bytes]:
    return {f"{wheels.INFO}/WHEEL": f"Wheel-Version: 1.0\nTag: {tag}\n".encode()}


@pytest.fixture
def wheel(built: list[Built], tmp_path: Path) -> Path:
    return put_wheel(tmp_path / NATIVE, built, changes=changes(NATIVE[9:-4]))


def test_the_wheel_stays_and_one_comes_beside_it(
    wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (made,) = split(wheel, tmp_path, portable=True).wheels
    assert made.name == PORTABLE
    assert text(made, "/METADATA") == text(wheel, "/METADATA")
    assert "Tag: py3-none-any\n" in text(made, "/WHEEL")
    assert verify(str(made), Options(load=False)).passed
    monkeypatch.setenv("AOTBUILD_FALLBACK", "portable")
    np.testing.assert_array_equal(aotbuild.load(made).double(X), X * 2)
    assert contents(made).keys() < contents(wheel).keys()


def test_beside_a_base_it_has_the_same_extras(built: list[Built], tmp_path: Path) -> None:
    wheel = put_wheel(tmp_path / NATIVE, everywhere(built), changes=changes(NATIVE[9:-4]))
    base, cuda, tpu, made = split(wheel, tmp_path / "out", portable=True).wheels
    assert [path.name.partition("-")[0] for path in (base, cuda, tpu, made)] == [
        "demo",
        "demo_aot_cuda",
        "demo_aot_tpu",
        "demo",
    ]
    assert text(made, "/METADATA") == text(base, "/METADATA")
    assert "Provides-Extra: cuda\n" in text(made, "/METADATA")


def test_a_function_without_portable_form(built: list[Built], tmp_path: Path) -> None:
    other = build("triple", lambda x: x * 3, {"x": X})
    wheel = put_wheel(tmp_path / NATIVE, [*built, other], changes=changes(NATIVE[9:-4]))
    written = split(wheel, tmp_path / "out", portable=True)
    assert written.notes == (f"{PORTABLE} lacks triple: no portable form",)
    assert aotbuild.load(written.wheels[0]).functions == ("double",)


@pytest.mark.parametrize(
    ("name", "more", "reason"),
    [
        (NATIVE, {"demo/fast.so": b""}, "demo/fast.so is compiled code"),
        (NATIVE.replace("none", "cp311"), {}, "its tag is py3-cp311-manylinux_2_27_x86_64"),
        (NATIVE, None, "none of its targets is portable"),
    ],
)
def test_refused(
    name: str, more: dict[str, bytes] | None, reason: str, built: list[Built], tmp_path: Path
) -> None:
    chosen = built if more is not None else built[:1]
    wheel = put_wheel(tmp_path / name, chosen, changes={**changes(name[9:-4]), **(more or {})})
    with pytest.raises(WheelRefused) as caught:
        split(wheel, tmp_path / "out", portable=True)
    assert caught.value.reasons == (reason,)
    assert not (tmp_path / "out").exists()


def test_command(wheel: Path, tmp_path: Path) -> None:
    document = json.loads(run("split", wheel, "--out", tmp_path, "--portable", "--json").stdout)
    assert [Path(item["path"]).name for item in document["wheels"]] == [PORTABLE]
    result = run("split", wheel, "--out", tmp_path, "--portable", "--variants", code=2)
    assert "--portable and --variants exclude each other" in result.stderr


@pytest.mark.wheel
class TestInstallers:
    """Both wheels in a folder of links; jaxlib comes from the package index."""

    @pytest.fixture
    def folder(self, built: list[Built], links: Path, tmp_path: Path) -> Path:
        older = for_target(built[0], str(built[0].record.target), jaxlib=JAXLIB)
        function = replace(built[1], record=built[1].record)
        wheel = put_wheel(
            tmp_path / "dist" / NATIVE,
            [older, function],
            requires=REQUIRES,
            header={"jaxlib": JAXLIB},
            changes=changes(NATIVE[9:-4]),
        )
        split(wheel, wheel.parent, portable=True)
        (own,) = links.glob("aotbuild-*.whl")
        (wheel.parent / own.name).symlink_to(own)
        return wheel.parent

    def test_uv(self, folder: Path) -> None:
        assert jaxlib_by_uv(folder, "--universal") == JAXLIB
        assert jaxlib_by_uv(folder, "--python-platform", "x86_64-manylinux_2_28") == JAXLIB
        # There is no native wheel for it: a later jaxlib may compile the portable forms.
        there = jaxlib_by_uv(folder, "--python-platform", "aarch64-apple-darwin")
        assert Version(there) > Version(JAXLIB)

    def test_pip(self, folder: Path) -> None:
        options = ("--quiet", "--dry-run", "--ignore-installed", "--report", "-")
        report = json.loads(pip(sys.executable, "install", *options, "demo", links=folder))
        found = {item["metadata"]["name"]: item for item in report["install"]}
        assert found["jaxlib"]["metadata"]["version"] == JAXLIB
        assert found["demo"]["download_info"]["url"].endswith(NATIVE)


def jaxlib_by_uv(links: Path, *platform: str) -> str:
    """Return the version that uv resolves."""
    options = ("--quiet", "--no-header", "--no-annotate", "--find-links", ".")
    options = (*options, "--python", sys.executable)
    command = [uv_program(), "pip", "compile", *options, *platform, "-"]
    done = subprocess.run(command, cwd=links, input="demo\n", capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (line,) = (line for line in done.stdout.splitlines() if line.startswith("jaxlib=="))
    return line.removeprefix("jaxlib==")
