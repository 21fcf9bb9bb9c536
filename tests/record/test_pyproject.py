"""pyproject.toml: what the hooks need is there afterwards, and everything else as it was."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from aotbuild.errors import ProjectError
from aotbuild.record.pyproject import BACKEND, Package, manifest_of, prepare

PACKAGE = Package("mypkg", Path("src"))
HATCH = """\
# The project.
[build-system]
requires = ["hatchling"]  # builds
build-backend = "hatchling.build"

[project]
name = "mypkg"  # its name
version = "1.0"
dependencies = [
    "numpy>=2",  # arrays
]

[project.scripts]
run = "mypkg:main"

[tool.ruff]
line-length = 100
"""


def check(text: str, own: list[str]) -> dict[str, Any]:
    """Check what the hooks need, and that a second preparation changes nothing."""
    found = tomllib.loads(text)
    assert found["build-system"]["build-backend"] == BACKEND
    assert "aotbuild[build]" in found["build-system"]["requires"]
    assert "dependencies" not in found["project"]
    assert "dependencies" in found["project"]["dynamic"]
    hatch = found["tool"]["hatch"]
    assert hatch["metadata"]["hooks"]["aotbuild"] == {"dependencies": own}
    assert hatch["build"]["targets"]["wheel"]["hooks"]["aotbuild"]["manifest"] == "aot.yaml"
    files = {key.get("file") for key in found["tool"]["uv"]["cache-keys"]}
    assert {"pyproject.toml", "aot.yaml", "src/mypkg/**/*.py"} <= files
    assert prepare(text, PACKAGE).text == text
    return found


def test_a_new_project() -> None:
    found = check(prepare(None, PACKAGE).text, [])
    assert found["project"]["name"] == "mypkg"
    assert "packages" not in found["tool"]["hatch"]["build"]["targets"]["wheel"]


def test_a_project_of_hatchling() -> None:
    text = prepare(HATCH, PACKAGE).text
    check(text, ["numpy>=2"])
    for line in (
        'requires = ["hatchling"',
        "# The project.",
        "# its name",
        "# arrays",
        "[tool.ruff]",
    ):
        assert line in text


def test_a_package_of_another_name() -> None:
    text = prepare(HATCH.replace('name = "mypkg"', 'name = "other"'), PACKAGE).text
    wheel = tomllib.loads(text)["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert wheel["packages"] == ["src/mypkg"]


@pytest.mark.parametrize("extra", ["[tool.uv]\npackage = true\n", 'a.b = "c"\n'])
def test_other_tables_stay(extra: str) -> None:
    text = prepare(f"{HATCH}\n{extra}", PACKAGE).text
    assert extra.splitlines()[-1] in text
    check(text, ["numpy>=2"])


def test_another_backend_is_left_as_it_is() -> None:
    text = '[build-system]\nrequires = ["uv_build"]\nbuild-backend = "uv_build"\n'
    prepared = prepare(text, PACKAGE)
    assert (prepared.text, prepared.is_hatchling) == (text, False)
    assert "uv_build builds the project" in prepared.notes[0]
    assert 'manifest = "aot.yaml"' in prepared.notes[0]


def test_a_pin_of_jax_is_noted() -> None:
    prepared = prepare(HATCH.replace("numpy>=2", "jax>=0.10"), PACKAGE)
    assert prepared.notes[0].startswith("jax>=0.10: the hook adds jax and jaxlib")


@pytest.mark.parametrize(
    "text", ["x =", '[build-system]\nbuild-backend = "hatchling.build"\nrequires = 3']
)
def test_a_file_that_cannot_be_extended(text: str) -> None:
    with pytest.raises(ProjectError, match=r"pyproject\.toml"):
        prepare(text, PACKAGE)


def test_the_manifest_that_the_hook_names() -> None:
    table = "[tool.hatch.build.targets.wheel.hooks.aotbuild]\nmanifest = 'conf/a.yaml'\n"
    assert manifest_of(table) == "conf/a.yaml"
    assert manifest_of(None) == manifest_of("x =") == "aot.yaml"
