"""Requires-Dist: what builds write passes, and what lets pip install another jaxlib fails."""

from __future__ import annotations

from pathlib import Path

import jaxlib
import pytest
from attacks import wheels
from attacks.wheels import check, failures
from support.packages import Built

from aotbuild.build.requires_dist import pins
from aotbuild.format.index import write_index

JAXLIB = jaxlib.__version__


@pytest.fixture(scope="module")
def built() -> list[Built]:
    return wheels.make_records()


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    return tmp_path / wheels.NAME


def assert_fails(wheel: Path, says: str) -> None:
    found = failures(check(wheel))
    assert list(found) == ["requirements"]
    assert says in found["requirements"]


def assert_passes(wheel: Path) -> None:
    assert failures(check(wheel)) == {}


def required(*lines: str) -> tuple[str, ...]:
    """Return the requirements of a wheel with executables, with these lines of jax and jaxlib."""
    return ("aotbuild>=0.1,<0.2", "flatbuffers", *lines)


EXACT = f"jaxlib=={JAXLIB}"
REQUIREMENTS = {
    "later ones": ((f"jaxlib>={JAXLIB},<=99.0",), "which allows later ones"),
    "all up to a later one": (("jaxlib<=99.0",), "which allows older ones"),
    "a prefix": (("jaxlib==0.*",), "which allows older ones"),
    "another one beside it": ((EXACT, "jaxlib==0.4.1"), "jaxlib==0.4.1"),
    "a URL beside it": ((EXACT, "jaxlib @ https://example.org/j.whl"), "expected Requires-Dist"),
    "a URL of jax": ((EXACT, "jax @ https://example.org/j.whl"), "expected Requires-Dist: jax=="),
    "an old jax": ((EXACT, "jax==0.4.1"), "expected Requires-Dist: jax=="),
}


def with_requirements(wheel: Path, built: list[Built], versions: str, *lines: str) -> Path:
    header = {"package": "demo", "fallback": "none", "jax": versions, "jaxlib": versions}
    functions = {item.function.name: item.function for item in built}.values()
    index = write_index(header, functions, [item.record for item in built])
    aot = {"index": index, **{path: data for item in built for path, data in item.blobs.items()}}
    files = wheels.with_record(wheels.wheel_files(aot, required(*lines)))
    return wheels.write_wheel(wheel, files.items())


@pytest.mark.parametrize("fault", REQUIREMENTS)
def test_requirements_allow(fault: str, built: list[Built], wheel: Path) -> None:
    lines, says = REQUIREMENTS[fault]
    assert_fails(with_requirements(wheel, built, JAXLIB, *lines), says)


@pytest.mark.parametrize("versions", [(JAXLIB,), ("0.9.0", JAXLIB), ("0.8.1", "0.9.0.1", JAXLIB)])
@pytest.mark.parametrize("portable", [False, True])
def test_requirements_that_builds_write(
    versions: tuple[str, ...], portable: bool, built: list[Built], wheel: Path
) -> None:
    names = ("jax", "jaxlib")
    lines = [line for n in names for line in pins(n, versions, native=True, portable=portable)]
    chosen = built if portable else [b for b in built if not b.record.target.is_portable]
    assert_passes(with_requirements(wheel, chosen, ", ".join(versions), *lines))


def test_requirements_of_portable_forms(built: list[Built], wheel: Path) -> None:
    portable = [b for b in built if b.record.target.is_portable]
    lines = [
        line
        for name in ("jax", "jaxlib")
        for line in pins(name, ["0.9.0", JAXLIB], native=False, portable=True)
    ]
    assert_passes(with_requirements(wheel, portable, f"0.9.0, {JAXLIB}", *lines))
    lines = ["jaxlib>=0.1"]
    assert_fails(with_requirements(wheel, portable, JAXLIB, *lines), "which allows older ones")
