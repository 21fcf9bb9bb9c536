"""pyproject.toml: what the hooks need is there afterwards, and everything else as it was."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest

from aotbuild.errors import ProjectError
from aotbuild.record.project import prepare
from aotbuild.record.project_tables import BACKEND, Wanted

WANTED = Wanted("mypkg", "src/mypkg", project="mypkg")
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
UV = """\
[project]
name = "mypkg"
version = "0.1.0"
dependencies = ["flax"]

[build-system]
requires = ["uv_build>=0.9,<0.10"]
build-backend = "uv_build"

[tool.uv]
required-version = ">=0.9"
"""
SETUPTOOLS = """\
[build-system]
requires = ["setuptools>=61"]
build-backend = "setuptools.build_meta"

[project]
name = "mypkg"
version = "0.1.0"

[tool.setuptools.packages.find]
where = ["src"]
"""


def read(text: str) -> dict[str, Any]:
    return tomllib.loads(text)


def check(text: str, own: list[str]) -> dict[str, Any]:
    """Check what the hooks need; return the tables."""
    found = read(text)
    assert found["build-system"]["build-backend"] == BACKEND
    assert "aotbuild[build]" in found["build-system"]["requires"]
    assert "dependencies" not in found["project"]
    assert "dependencies" in found["project"]["dynamic"]
    hatch = found["tool"]["hatch"]
    assert hatch["metadata"]["hooks"]["aotbuild"] == {"dependencies": own}
    assert hatch["build"]["targets"]["wheel"]["hooks"]["aotbuild"] == {"manifest": "aot.yaml"}
    files = [key.get("file") for key in found["tool"]["uv"]["cache-keys"]]
    wanted = {"pyproject.toml", "aot.yaml", "aot.trees.json", "src/mypkg/**/*.py"}
    assert wanted <= {*files}
    assert prepare(text, WANTED).text == text
    return found


def test_hatchling() -> None:
    text = prepare(HATCH, WANTED).text
    found = check(text, ["numpy>=2"])
    assert found["project"]["scripts"] == {"run": "mypkg:main"}
    assert "packages" not in found["tool"]["hatch"]["build"]["targets"]["wheel"]
    for comment in (
        "# The project.\n",
        "]  # builds\n",
        '"mypkg"  # its name\n',
        '2",  # arrays\n',
    ):
        assert comment in text
    assert "[tool.ruff]\nline-length = 100\n" in text


def test_no_file() -> None:
    found = check(prepare(None, WANTED).text, [])
    assert found["project"]["name"] == "mypkg"


def test_an_empty_file() -> None:
    assert check(prepare("", WANTED).text, [])["project"]["version"] == "0.1.0"


def test_no_build_system() -> None:
    text = prepare(UV.partition("[build-system]")[0], WANTED).text
    check(text, ["flax"])
    assert text.startswith("[build-system]\n")


def test_windows_line_ends_stay() -> None:
    text = prepare(HATCH.replace("\n", "\r\n"), WANTED).text
    assert text.replace("\r\n", "\n") == prepare(HATCH, WANTED).text
    assert text.count("\n") == text.count("\r\n")


def test_a_package_of_another_name_is_named() -> None:
    text = prepare(HATCH.replace('"mypkg"', '"other"', 1), WANTED).text
    assert check(text, ["numpy>=2"])["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"] == [
        "src/mypkg"
    ]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('requires = ["hatchling"]', 'requires = ["hatch-vcs", "hatchling<2", "aotbuild"]'),
        ('name = "mypkg"', 'name = "mypkg"\ndynamic = ["version"]'),
        ("[tool.ruff]", "[tool.uv]\ncache-keys = [{ git = { commit = true } }]\n[tool.ruff]"),
        ("[tool.ruff]", '[tool.hatch.build]\nexclude = ["x"]\n[a]\nb=1\n[tool.ruff]'),
        ("[tool.ruff]", "[tool.hatch.metadata]\nallow-direct-references = true\n[tool.ruff]"),
        ("[tool.ruff]", "[tool.uv]\npackage = true\n[tool.black]\na = 1\n[tool.ruff]"),
        ("[tool.ruff]", "[tool]\nuv.package = true\n[tool.ruff]"),
    ],
)  # fmt: skip
def test_what_is_there_stays(before: str, after: str) -> None:
    text = HATCH.replace(before, after)
    found, old = check(prepare(text, WANTED).text, ["numpy>=2"]), read(text)
    kept = [text for text in old["build-system"]["requires"] if text != "aotbuild"]
    assert [text for text in found["build-system"]["requires"] if "aotbuild" not in text] == kept
    assert {*old["project"].get("dynamic", [])} <= {*found["project"]["dynamic"]}
    for key in old["tool"].get("uv", {}).get("cache-keys", []):
        assert key in found["tool"]["uv"]["cache-keys"]
    assert found["tool"]["ruff"] == {"line-length": 100}
    hatch = old["tool"].get("hatch", {})
    assert hatch.get("build", {}).get("exclude") == found["tool"]["hatch"]["build"].get("exclude")


def test_dependencies_are_joined() -> None:
    text = f'{HATCH}\n[tool.hatch.metadata.hooks.aotbuild]\ndependencies = ["scipy"]\n'
    check(prepare(text, WANTED).text, ["scipy", "numpy>=2"])


def test_empty_tables_are_filled() -> None:
    tables = "[tool.uv]\n[tool.hatch.metadata.hooks.aotbuild]\n[tool.hatch.build.targets.wheel]\n"
    check(prepare(f"{HATCH}\n{tables}", WANTED).text, ["numpy>=2"])


def test_jax_among_the_dependencies_is_told() -> None:
    (note,) = prepare(HATCH.replace("numpy>=2", "jax>=0.4"), WANTED).notes
    assert note.startswith("jax>=0.4: the hook adds jax")


@pytest.mark.parametrize(
    "tables",
    [
        '[tool.hatch]\nbuild = {targets = {wheel = {packages = ["src/mypkg"]}}}\n',
        "[tool]\nuv = 1\n",
    ],
)
def test_tables_that_cannot_be_extended(tables: str) -> None:
    with pytest.raises(ProjectError, match="Write these tables yourself") as caught:
        prepare(HATCH.replace("[tool.ruff]", f"{tables}[tool.ruff]"), WANTED)
    assert caught.value.place == "pyproject.toml"
    assert "[tool.hatch.metadata.hooks.aotbuild]" in str(caught.value)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('dependencies = [\n    "numpy>=2",  # arrays\n]', "dependencies = 3"),
        ('requires = ["hatchling"]', "requires = 3"),
        ("[project]", "[tool]\nhatch = 3\n[project]"),
    ],
)
def test_values_of_other_types(before: str, after: str) -> None:
    with pytest.raises(ProjectError):
        prepare(HATCH.replace(before, after), WANTED)


def test_no_toml() -> None:
    with pytest.raises(ProjectError, match="not TOML"):
        prepare("[project", WANTED)


class TestOtherBackends:
    @pytest.mark.parametrize("text", [UV, SETUPTOOLS])
    def test_left_as_they_are(self, text: str) -> None:
        prepared = prepare(text, WANTED)
        assert prepared.text == text
        assert "--backend hatchling" in prepared.problem
        assert prepared.proposal == prepare(text, WANTED, switch=True).text

    def test_uv_build(self) -> None:
        found = check(prepare(UV, WANTED, switch=True).text, ["flax"])
        assert found["build-system"]["requires"] == ["hatchling>=1.29", "aotbuild[build]"]
        assert found["tool"]["uv"]["required-version"] == ">=0.9"

    def test_setuptools(self) -> None:
        found = check(prepare(SETUPTOOLS, WANTED, switch=True).text, [])
        assert "setuptools" not in found["tool"]

    @pytest.mark.parametrize(
        ("text", "reason"),
        [
            (f"{SETUPTOOLS}[tool.setuptools.package-data]\na = []\n", "package-data"),
            (SETUPTOOLS.replace("where", "exclude"), "packages.find: exclude"),
            (SETUPTOOLS.replace('version = "0.1.0"', 'dynamic = ["version"]'), "no version"),
            (SETUPTOOLS.replace("[project]", 'backend-path = ["."]\n[project]'), "backend-path"),
            (SETUPTOOLS.replace("setuptools.build_meta", "mesonpy"), "mesonpy is not known"),
            (f"{UV}[tool.uv.build-backend]\nnamespace = true\n", "namespace"),
            ('[build-system]\nrequires=[]\nbuild-backend = "poetry.core.masonry.api"\n', "poetry"),
        ],
    )
    def test_told_what_hatchling_cannot_do(self, text: str, reason: str) -> None:
        prepared = prepare(text, WANTED)
        assert (prepared.text, prepared.proposal) == (text, "")
        assert reason in prepared.problem
        with pytest.raises(ProjectError, match="cannot take over") as caught:
            prepare(text, WANTED, switch=True)
        assert reason in caught.value.problem

    def test_a_setup_py_alone(self) -> None:
        """pip builds it by setuptools, so a new pyproject.toml would change what is built."""
        wanted = Wanted("mypkg", "src/mypkg", others=("setup.py",), project="mypkg")
        prepared = prepare(None, wanted)
        assert (prepared.text, prepared.proposal) == ("", "")
        assert "setup.py beside pyproject.toml" in prepared.problem
        with pytest.raises(ProjectError, match="cannot take over"):
            prepare(None, wanted, switch=True)

    def test_a_setup_py_beside_it(self) -> None:
        wanted = Wanted("mypkg", "src/mypkg", others=("setup.py",), project="mypkg")
        prepared = prepare("[tool.black]\nline-length = 9\n", wanted)
        assert "setuptools" in prepared.problem
        assert "setup.py beside pyproject.toml" in prepared.problem
