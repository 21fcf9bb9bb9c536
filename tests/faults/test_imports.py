"""Records that name what no result, template, callback or source of their package is.

A name that must not be imported is that of a module which writes a file when it is.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from damage.forks import Forks
from faults.lies import edited

from aotbuild.format.record import PYTHON_CALL

pytestmark = pytest.mark.process

FILES = {
    # The package that the index names; it has os among its attributes, as many have.
    "demo/__init__.py": "",
    "demo/types.py": (
        "import os\nfrom collections import namedtuple\nfrom os import system\n"
        "Pair = namedtuple('Pair', 'up')\nclass Held:\n    run = system\n    files = os\n"
        "def plain(x):\n    return x\ndef source(x):\n    return x * 2\n"
    ),
    "demo/__main__.py": "raise SystemExit(3)\n",
    "pyproject.toml": '[project]\nname = "demo"\ndependencies = ["needed.things >= 1"]\n',
}
# Beside it, as in an environment.
INSTALLED = {
    # What it requires, by way of another distribution.
    "needed/__init__.py": "from collections import namedtuple\nBox = namedtuple('Box', 'up')\n",
    "deep/__init__.py": "from collections import namedtuple\nDeep = namedtuple('Deep', 'up')\n",
    "deep-1.dist-info/METADATA": "Metadata-Version: 2.1\nName: deep\nVersion: 1\n",
    "needed_things-1.dist-info/METADATA": (
        "Metadata-Version: 2.1\nName: needed-things\nVersion: 1\n"
        "Requires-Dist: deep>=1\nRequires-Dist: evil-module; extra == 'never'\n"
    ),
    "needed_things-1.dist-info/RECORD": "needed/__init__.py,,\nneeded/more.py,,\n",
    # What nobody requires, although it is installed.
    "evil_module.py": (
        "import pathlib\nfrom collections import namedtuple\n"
        "pathlib.Path(__file__).with_name('WAS_IMPORTED').touch()\n"
        "Pair = namedtuple('Pair', 'up')\ndef strange(x):\n    return x\n"
    ),
    "evil_module-1.dist-info/METADATA": "Metadata-Version: 2.1\nName: evil-module\nVersion: 1\n",
    "tool/__init__.py": "",
    "tool/__main__.py": "import evil_module\n",
}
_PLACES = itertools.count()


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def places(folder: Path) -> list[Path]:
    """Write a project and what is installed beside it; return where to import from."""
    return [write(folder / "project", FILES), write(folder / "installed", INSTALLED)]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return places(tmp_path_factory.mktemp("site"))


@pytest.fixture
def told(
    honest: Path, forks: dict[str, Forks], tmp_path: Path, path: list[Path]
) -> Iterator[Callable[..., str]]:
    """Return what becomes of a lie on a backend; no module may have been imported that tells."""

    def ask(
        name: str,
        record: Any = None,
        backend: str = "jax",
        *,
        header: Any = None,
        function: Any = None,
        **load: Any,
    ) -> str:
        place = tmp_path / str(next(_PLACES))
        folder = edited(honest, place, name, record, header=header, function=function)
        return forks[backend].told(folder, [name], path, **load)

    yield ask
    assert not (path[1] / "WAS_IMPORTED").exists()


def calling(key: str, value: Any) -> Callable[[Any], None]:
    def edit(record: Any) -> None:
        record["calling"][key] = value

    return edit


def callback(name: str) -> Callable[[Any], None]:
    args = ["tuple", ["tuple", "*"], ["dict", []]]
    each = {"kind": "pure", "call": name, "tree": args, "statics": [], "printing": {}}

    def edit(record: Any) -> None:
        record["calling"]["callbacks"] = [{**each, "results": ["f32[16]"], "ordered": False}]
        record["requires"]["custom_calls"] = [[PYTHON_CALL.target, PYTHON_CALL.provider]]

    return edit


def returned(name: str) -> Callable[[Any], None]:
    def edit(record: Any) -> None:
        record["calling"]["returned"] = {"like": name, "values": [], "tree": "0" * 64}
        record["calling"]["out_tree"] = ["returns", [], "*"]

    return edit


# Modules that the package has no business with, and ways around them.
OUTSIDE = (
    "evil_module:Pair",
    "evil_module:strange",
    "os:system",
    "os:stat_result",
    "posix:system",
    "subprocess:Popen",
    "shutil:rmtree",
    "ctypes:CDLL",
    "runpy:run_path",
    "importlib:import_module",
    "sys:exit",
    "code:interact",
    "antigravity:geohash",
    "pip:main",
    "pytest:main",
    "tool:x",
    "_pytest.config:main",
    "numpy.testing._private.utils:runstring",
)
# Names that lead from a module that is allowed to one that is not.
AROUND = (
    "demo.types:os.system",
    "demo.types:system",
    "demo.types:Held.run",
    "demo.types:Held.files.system",
    "collections:_sys.exit",
    "builtins:eval",
    "builtins:exec",
    "builtins:open",
    "builtins:__import__",
    "demo.types:__builtins__",
    "demo.types:plain.__globals__",
    "demo.types:__loader__.set_data",
    "demo.types:__spec__.loader.exec_module",
    "demo.__main__:x",
    "numpy:__loader__.get_data",
    "numpy:testing.rundocs",
)
MALFORMED = (
    "",
    ":",
    "demo",
    "demo.types",
    ":Pair",
    ".demo:x",
    "..os:system",
    "demo types:x",
    "a/b:c",
)
REFUSED = "refused: ImportRefused"
IN_WORDS = ("allow_imports=", "AOTBUILD_ALLOW_IMPORTS=")


@pytest.mark.parametrize("name", [*OUTSIDE, *AROUND])
def test_a_type_of_a_result(told: Callable[..., str], name: str) -> None:
    found = told("double", calling("out_tree", ["node", name, None, "*"]))
    assert found.startswith("refused: "), found
    assert "WAS" not in found


@pytest.mark.parametrize("name", ["evil_module:Pair", "os:stat_result", "subprocess:Popen"])
def test_the_refusal_says_what_to_do(told: Callable[..., str], name: str) -> None:
    found = told("double", calling("out_tree", ["namedtuple", name, "*"]))
    module = name.partition(":")[0]
    assert found.startswith(REFUSED)
    assert "demo: the record double cpu:" in found
    assert f"names {name}\n" in found
    assert "of demo, of what it requires (needed-things), of jax or numpy\n" in found
    assert f"found    {module}\n" in found
    assert all(words in found for words in IN_WORDS)


@pytest.mark.parametrize("name", ["evil_module:Pair", "os:stat_result", "demo.types:Held.files.x"])
def test_a_namedtuple_without_jax(told: Callable[..., str], name: str) -> None:
    found = told("double", calling("out_tree", ["namedtuple", name, "*"]), "numpy")
    assert found.startswith(REFUSED), found


@pytest.mark.parametrize("name", [*OUTSIDE, *AROUND])
def test_a_host_callback(told: Callable[..., str], name: str) -> None:
    found = told("double", callback(name))
    assert found.startswith("refused: NoExecutable"), found
    assert "calls back" in found


@pytest.mark.parametrize("name", ["evil_module:strange", "os:getcwd", "demo.types:os.getcwd"])
def test_a_tree_under_returns(told: Callable[..., str], name: str) -> None:
    assert told("double", returned(name)).startswith(REFUSED)


@pytest.mark.parametrize("name", ["os:system", "posix:system", "subprocess:run", "sys:exit"])
@pytest.mark.parametrize("form", ["name", "enum", "object"])
def test_static_data_of_what_is_imported(told: Callable[..., str], name: str, form: str) -> None:
    body = {"name": name, "enum": [name, "A"], "object": [name, []]}[form]
    tree = ["node", "jax.tree_util:Partial", {"tuple": [{form: body}, {"dict": []}]}, "*"]
    assert told("double", calling("out_tree", tree)).startswith(REFUSED)


@pytest.mark.parametrize("name", ["eval", "exec", "open", "compile", "__import__", "breakpoint"])
def test_static_data_that_runs_code(told: Callable[..., str], name: str) -> None:
    body = {"name": f"builtins:{name}"}
    tree = ["node", "jax.tree_util:Partial", {"tuple": [body, {"dict": []}]}, "*"]
    assert told("double", calling("out_tree", tree)).startswith("refused: ")


@pytest.mark.parametrize("name", [*OUTSIDE[:6], "demo.types:os.system", "demo.__main__:x"])
def test_a_source_that_is_called_instead(told: Callable[..., str], name: str) -> None:
    def unfit(record: Any) -> None:
        record["requires"]["jaxlib"] = "0.0.1"

    found = told(
        "double",
        unfit,
        header=lambda header: {**header, "fallback": "jit"},
        function=lambda function: {**function, "call": name},
    )
    assert found.startswith("refused: NoExecutable"), found
    assert "is not importable: " in found


@pytest.mark.parametrize("name", MALFORMED)
def test_what_is_no_name(told: Callable[..., str], name: str) -> None:
    found = told("double", calling("out_tree", ["namedtuple", name, "*"]))
    assert found.startswith("refused: "), found
    assert told("double", callback(name)).startswith("refused: ")


@pytest.mark.parametrize("package", ["os", "subprocess", "posix", "evil_module.x", "", "."])
def test_an_index_that_says_that_it_is_of_another_package(
    told: Callable[..., str], package: str
) -> None:
    found = told(
        "double",
        calling("out_tree", ["namedtuple", "os:stat_result", "*"]),
        header=lambda header: {**header, "package": package},
    )
    assert found.startswith("refused: "), found


@pytest.mark.parametrize("backend", ["jax", "numpy"])
@pytest.mark.parametrize("name", ["demo.types:Pair", "needed:Box", "deep:Deep"])
def test_what_the_package_has_or_requires(
    told: Callable[..., str], backend: str, name: str
) -> None:
    tree = ["namedtuple", name, "*"]
    assert told("double", calling("out_tree", tree), backend) == "right"


@pytest.mark.parametrize("allowed", [["evil_module"], ["json", "evil_module"]])
def test_what_the_caller_allows(
    honest: Path, forks: dict[str, Forks], tmp_path: Path, allowed: list[str]
) -> None:
    path = places(tmp_path)
    edit = calling("out_tree", ["namedtuple", "evil_module:Pair", "*"])
    folder = edited(honest, tmp_path, "double", edit)
    for server in forks.values():
        assert server.told(folder, ["double"], path, allow_imports=allowed) == "right"
    assert (path[1] / "WAS_IMPORTED").exists()


@pytest.mark.parametrize("allowed", [["evil"], ["evil_module.sub"], ["json"], []])
def test_what_the_caller_allows_is_exact(told: Callable[..., str], allowed: list[str]) -> None:
    tree = ["namedtuple", "evil_module:Pair", "*"]
    found = told("double", calling("out_tree", tree), allow_imports=allowed)
    assert found.startswith(REFUSED)


@pytest.mark.parametrize("allowed", ["evil_module", [1], ["a b"], [""], ["os;"], 3, [None]])
def test_what_is_no_list_of_modules(told: Callable[..., str], allowed: Any) -> None:
    found = told("double", allow_imports=allowed)
    assert found.startswith("refused: AotbuildError: load(allow_imports=…): expected names of")
