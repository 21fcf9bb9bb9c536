"""Notes on names that calls will refuse to import: nothing that the project requires has them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.records import make_function, make_record

from aotbuild.build.import_notes import import_notes
from aotbuild.build.sources import SourceTree
from aotbuild.format.record import HostCallback, Returned

OPTAX = ["namedtuple", "optax._src.base:EmptyState"]
EMPTY = ["tuple", ["tuple"], ["dict", []]]
REQUIRED = '[project]\nname = "p"\nversion = "1"\ndependencies = [{}]\n'


@pytest.fixture
def sources(tmp_path: Path) -> SourceTree:
    (tmp_path / "src/p").mkdir(parents=True)
    (tmp_path / "src/other.py").touch()
    (tmp_path / "pyproject.toml").write_text(REQUIRED.format('"jax"'))
    return SourceTree(tmp_path, tmp_path / "src", "p")


def notes(sources: SourceTree, tree: Any = "*", fallback: str = "none", **calling: Any) -> str:
    record = make_record("step")
    calls = replace(record.calling, out_tree=tree, **calling)
    function = replace(make_function("step"), call="elsewhere.model:step")
    records = [replace(record, calling=calls)]
    return "\n".join(import_notes(records, [function], sources, fallback, None))


def callback(name: str) -> HostCallback:
    return HostCallback("pure", name, EMPTY, (), (), False, {})


def test_a_type_that_the_project_does_not_require(sources: SourceTree) -> None:
    assert notes(sources, ["list", OPTAX, "*"]) == (
        "step: calls import optax._src.base:EmptyState, and the project requires nothing that has "
        "optax: they raise ImportRefused; add what has it to the dependencies in pyproject.toml, "
        "or load with allow_imports=['optax']"
    )


@pytest.mark.parametrize("name", ["flax", "optax", "Optax>=0.1", "optax ; python_version > '3'"])
def test_what_it_requires_directly_or_not(sources: SourceTree, name: str) -> None:
    (sources.root / "pyproject.toml").write_text(REQUIRED.format(f'"{name}"'))
    assert notes(sources, OPTAX) == ""


def named() -> Iterator[Any]:
    yield {"tree": ["namedtuple", "p.model:State", "*"]}
    yield {"tree": ["node", "other:State", None, "*"]}
    yield {"tree": ["namedtuple", "jax._src.x:Y", "*"]}
    yield {"callbacks": (callback("numpy:sort"), callback("builtins:print"))}
    yield {"callbacks": (callback(""),)}  # jax.debug.print


@pytest.mark.parametrize("calling", [*named()])
def test_what_the_project_has_anyway(sources: SourceTree, calling: dict[str, Any]) -> None:
    assert notes(sources, **calling) == ""


@pytest.mark.parametrize(
    "calling",
    [
        {"callbacks": (callback("subprocess:run"),)},
        {"returned": Returned("optax:adam", (), "0")},
        {"fallback": "jit"},
    ],
)
def test_other_names(sources: SourceTree, calling: dict[str, Any]) -> None:
    assert "raise ImportRefused" in notes(sources, **calling)


def test_dependencies_that_a_hook_decides(sources: SourceTree) -> None:
    text = '[project]\nname = "p"\nversion = "1"\ndynamic = ["dependencies"]\n'
    (sources.root / "pyproject.toml").write_text(text)
    assert notes(sources, OPTAX)
    hook = "[tool.hatch.metadata.hooks.aotbuild]\ndependencies = [{}]\n"
    (sources.root / "pyproject.toml").write_text(text + hook.format('"optax"'))
    assert notes(sources, OPTAX) == ""
    (sources.root / "pyproject.toml").write_text(text + "[tool.hatch.metadata.hooks.other]\n")
    assert notes(sources, OPTAX) == ""


def test_an_environment_that_is_on_another_machine(sources: SourceTree) -> None:
    record = make_record()
    calls = replace(record.calling, out_tree=OPTAX)
    interpreter = sources.root / "bin/python"
    found = import_notes([replace(record, calling=calls)], [], sources, "none", interpreter)
    assert list(found) == []
