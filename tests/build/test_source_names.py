"""Names of a manifest that the source does not define: found without importing, or left open."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.cli import invoke
from support.projects import write_project

from aotbuild.build.source_names import Doubt, Missing, SourceNames
from aotbuild.build.sources import SourceTree

# The source of proj.model, and what is said of proj.model:f. None: it is, or may be, there.
FOUND = {
    "a function": "def f(): ...",
    "an async function": "async def f(): ...",
    "an assignment": "f = make()",
    "two at once": "(f, g), *h = make()",
    "an annotated assignment": "f: object = make()",
    "an augmented one": "f += 1",
    "an import": "from elsewhere import g as f",
    "a module": "import f.g",
    "under a condition": "if x:\n    def f(): ...",
    "the other branch": "if typing.TYPE_CHECKING:\n    pass\nelse:\n    f = 1",
    "not at a check": "if not TYPE_CHECKING:\n    f = 1",
    "in a handler": "try:\n    import a\nexcept ImportError:\n    f = None",
    "finally": "try:\n    a\nfinally:\n    f = 1",
    "a loop": "for f in make(): ...",
    "with": "with make() as f: ...",
    "a walrus": "if (f := make()): ...",
    "a walrus in a default": "def g(x=(f := 1)): ...",
    "a pattern": "match make():\n    case [f, *_]: ...",
    "a mapping pattern": "match make():\n    case {**f}: ...",
    "a global": "def g():\n    global f\n    f = 1",
    "a star of the project": "from .others import *",
    "a star of two": "from proj.chained import *",
}
MISSING = {
    "nothing": "",
    "another name": "def g(): ...",
    "inside a function": "def g():\n    def f(): ...\n    x = f = 1",
    "inside a class": "class G:\n    def f(self): ...",
    "only for type checkers": "if TYPE_CHECKING:\n    from elsewhere import f",
    "only as a program": "if __name__ == '__main__':\n    f = 1",
    "an annotation": "f: object",
    "an argument": "def g(f, *, h=lambda f: f): ...",
    "a star without it": "from .empty import *",
    "stars in a circle": "from .model import *\nfrom .circle import *",
}
DOUBT = {
    "a star of others": ("from numpy import *", "imports everything of numpy"),
    "a star of no source": ("from .compiled import *", "imports everything of .compiled"),
    "__getattr__": ("def __getattr__(name): ...", "has a __getattr__"),
    "globals": ("globals().update(make())", "calls globals"),
    "setattr": ("def g(m): setattr(m, 'f', 1)", "calls setattr"),
    "sys.modules": ("import sys\nsys.modules[__name__] = make()", "uses sys.modules"),
    "exec": ("exec(make())", "calls exec"),
    "another syntax": ("def f(:", "cannot be read"),
}
OTHERS = {
    "others": "def f(): ...",
    "chained": "from .others import *",
    "empty": "",
    "circle": "from .model import *",
    "classes": """
class Plain:
    def method(self): ...
    @staticmethod
    def static(): ...
class Child(Plain):
    own = 1
@decorated
class Decorated: ...
class Twice: ...
class Twice:
    f = 1
class Set: ...
def g(): ...
""",
    "setter": "from . import classes\nclasses.Set.late = 1\n",
}


def problem(root: Path, reference: str, model: str = "") -> Missing | Doubt | None:
    write_project(root, "", model=model, **OTHERS)
    (root / "proj" / "compiled.cpython-311-x86_64-linux-gnu.so").touch()
    (root / "proj" / "sub").mkdir()
    (root / "proj" / "sub" / "__init__.py").write_text("from .part import h\n")
    (root / "proj" / "sub" / "part.py").write_text("def h(): ...\n")
    (root / "proj" / "bare").mkdir()
    return SourceNames(SourceTree(root, root, "proj")).problem(reference)


@pytest.mark.parametrize("source", FOUND.values(), ids=FOUND)
def test_found(tmp_path: Path, source: str) -> None:
    assert problem(tmp_path, "proj.model:f", source) is None


@pytest.mark.parametrize("source", MISSING.values(), ids=MISSING)
def test_missing(tmp_path: Path, source: str) -> None:
    found = problem(tmp_path, "proj.model:f", source)
    assert isinstance(found, Missing)
    assert found.text.startswith("proj/model.py defines no 'f'")


@pytest.mark.parametrize(("source", "why"), DOUBT.values(), ids=DOUBT)
def test_doubt(tmp_path: Path, source: str, why: str) -> None:
    found = problem(tmp_path, "proj.model:f", source)
    assert isinstance(found, Doubt)
    assert found.text.startswith(f"proj/model.py {why}")


@pytest.mark.parametrize(
    ("reference", "expected"),
    [
        ("proj.classes:Plain.method", None),
        ("proj.classes:Plain.__call__", None),
        ("proj.classes:Plain.methd",
         Missing("class Plain of proj/classes.py defines no 'methd' (did you mean 'method'?)")),
        ("proj.classes:Child.own", None),
        ("proj.classes:Child.more",
         Doubt("class Child of proj/classes.py does not define 'more' itself")),
        ("proj.classes:Decorated.more",
         Doubt("class Decorated of proj/classes.py does not define 'more' itself")),
        ("proj.classes:Twice.more", None),
        ("proj.classes:Set.late", Doubt("proj/setter.py sets an attribute 'late'")),
        ("proj.classes:late", Doubt("proj/setter.py sets an attribute 'late'")),
        ("proj.classes:g.lower", None),
        ("proj.sub:h", None),
        ("proj.sub:part.h", None),
        ("proj.sub:part", None),
        ("proj.sub:part.i", Missing("proj/sub/part.py defines no 'i'")),
        ("proj.sub:i", Missing("proj/sub/__init__.py defines no 'i'")),
        ("proj.modl:f", Missing("proj has no module 'modl' (did you mean 'model'?)")),
        ("proj.sub.prt:f", Missing("proj/sub has no module 'prt' (did you mean 'part'?)")),
        ("proj.compiled:f", None),
        ("proj.bare:f", None),
        ("proj.bare.deeper:f", None),
        ("numpy:f", None),
        ("numpy.linalg:f", None),
    ],
)  # fmt: skip
def test_references(tmp_path: Path, reference: str, expected: Missing | Doubt | None) -> None:
    assert problem(tmp_path, reference) == expected


def test_packages_that_extend_their_path_are_left_open(tmp_path: Path) -> None:
    write_project(tmp_path, "")
    (tmp_path / "proj" / "__init__.py").write_text("__path__ = extend_path(__path__, __name__)\n")
    assert SourceNames(SourceTree(tmp_path, tmp_path, "proj")).problem("proj.far:f") is None


MANIFEST = """
version: 1
package: proj
targets: [portable]
functions:
  one: {call: "proj.model:scoer", args: [x: "f32[2]"]}
  two: {call: "proj.model:score", args: [x: {like: "proj.model:params"}]}
  three: {call: "proj.dynamic:f", args: [x: "f32[2]"]}
"""


class TestPlan:
    @pytest.fixture
    def root(self, tmp_path: Path) -> Path:
        # Importing either would fail.
        model, dynamic = "def score(x): ...\n1 / 0\n", "from numpy import *\n1 / 0\n"
        return write_project(tmp_path, MANIFEST, model=model, dynamic=dynamic)

    def test_all_that_is_missing(self, root: Path) -> None:
        file = root / "aot.yaml"
        result = invoke("plan", str(file))
        assert result.exit_code == 3
        assert result.stderr.splitlines()[-2:] == [
            (
                f"{file}:6:15: functions.one.call: proj.model:scoer: proj/model.py defines no "
                "'scoer' (did you mean 'score'?)"
            ),
            f"{file}:7:52: functions.two: proj.model:params: proj/model.py defines no 'params'",
        ]
        assert "3 units of 3 functions" in result.stdout

    def test_a_build_is_refused_before_it_starts(
        self, root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(root)
        result = invoke("build")
        assert (result.exit_code, result.stdout) == (3, "")
        one, two = result.stderr.splitlines()
        assert one.startswith("aot.yaml:6:15: functions.one.call: proj.model:scoer: ")
        assert two.startswith("aot.yaml:7:52: functions.two: proj.model:params: ")

    def test_the_error_as_data(self, root: Path) -> None:
        document = json.loads(invoke("build", root / "aot.yaml", "--json").stdout)
        problems = document["error"]["problems"]
        assert [(each["line"], each["column"]) for each in problems] == [(6, 15), (7, 52)]

    def test_a_doubt_is_a_note(self, root: Path) -> None:
        file = root / "aot.yaml"
        lines = file.read_text().splitlines()
        file.write_text("\n".join(line for line in lines if "proj.model:" not in line))
        result = invoke("plan", str(file), "--json")
        assert result.exit_code == 0
        assert (
            "functions.three.call: proj.dynamic:f: proj/dynamic.py imports everything of numpy, so "
            "the plan does not know whether it exists"
        ) in json.loads(result.stdout)["notes"]


def test_a_module_that_is_a_device(tmp_path: Path) -> None:
    package = write_project(tmp_path, "") / "proj"
    (package / "model.py").symlink_to("/dev/zero")
    names = SourceNames(SourceTree(tmp_path, tmp_path, "proj"))
    assert names.problem("proj.model:f") == Missing("proj/model.py is not a regular file")
    assert names.problem("proj:f") == Missing("proj/__init__.py defines no 'f'")  # reads no device


def test_a_module_that_is_nested_too_deeply_for_the_parser(tmp_path: Path) -> None:
    write_project(tmp_path, "", model="x = " + "-" * 300_000 + "1\n")
    found = SourceNames(SourceTree(tmp_path, tmp_path, "proj")).problem("proj.model:f")
    assert found == Doubt("proj/model.py cannot be read: nested too deeply")
