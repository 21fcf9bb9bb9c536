"""Where modules are found, and what may change that: `sys.path`, `__path__`, and finders."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.direct import HERE, Place, manifest
from support.projects import write_project

pytestmark = [pytest.mark.process, pytest.mark.any_jax]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    return Place(tmp_path, monkeypatch)


FACTOR = "FACTOR = {}.0\n"
_TRY = (
    "try: from {name} import FACTOR\nexcept ImportError: FACTOR = 2.0\ndef f(x): return x * FACTOR"
)
# Each looks for a module in a folder that it adds.
ADDED = {
    "appended": HERE + "import sys\nsys.path.append(str(HERE / 'added'))\n" + _TRY.format(name="a"),
    "inserted": HERE
    + "import sys\nsys.path.insert(0, str(HERE / 'first'))\n"
    + _TRY.format(name="shadowed"),
    "for_a_while": HERE
    + "import sys\nsys.path.insert(0, str(HERE / 'while'))\n"
    + _TRY.format(name="shadowed")
    + "\nsys.path.pop(0)",
    "packaged": _TRY.format(name="package.part"),
    "sought": "from importlib.machinery import PathFinder\n"
    "def f(x): return x * (2 if PathFinder.find_spec('found') is None else 3)",
    "untouched": "def f(x): return x",
}
FINDER = "import sys\nclass Finder:\n    def find_spec(self, *_): return None\n"


# A module that appears, and the function that it is for.
NEW = {
    "proj/added/a.py": "appended",
    "proj/first/shadowed.py": "inserted",
    "proj/while/shadowed/__init__.py": "for_a_while",
    "../late/package/over/part.py": "packaged",
    "../late/found.py": "sought",
}


def test_folders_that_code_adds(place: Place) -> None:
    write_project(place.root, manifest([*ADDED]), **ADDED)
    for folder in ("added", "first", "while/shadowed"):
        (place.root / "proj" / folder).mkdir(parents=True)
    (place.late / "package" / "over").mkdir(parents=True)
    place.write("../late/shadowed.py", FACTOR.format(2))
    place.write("../late/package/__init__.py", HERE + "__path__.insert(0, str(HERE / 'over'))\n")
    place.write("../late/package/part.py", FACTOR.format(2))
    assert place.traced() == {*ADDED}
    place.write("proj/added/unused.py", "")
    assert place.traced() == set()
    for name, function in NEW.items():
        place.write(name, FACTOR.format(3))
        assert function in place.traced()


def test_finders_of_the_users(place: Place) -> None:
    modules = {
        "kept": FINDER + "sys.meta_path.insert(0, Finder())\ndef f(x): return x",
        "reordered": "import sys\nsys.path.reverse()\nimport wave\nsys.path.reverse()\n"
        "def f(x): return x",
    }
    for name, text in modules.items():
        write_project(place.root / name, manifest([name]), **{name: text})
    place.root = place.root / "kept"
    place.build()
    assert place.why() == {"kept": "proj.kept puts a finder of its own on sys.meta_path"}
    place.root = place.root.parent / "reordered"
    place.build()
    assert place.why() == {"reordered": "sys.path has another order, or lacks folders"}


def test_what_runs_when_python_starts(place: Place) -> None:
    """Its modules are imported before anything is recorded, and by nobody."""
    text = "import builtins\nbuiltins.{} = {}\n"
    write_project(
        place.root, manifest(["one"]), one="def f(x): return x * IN_MODULE * IN_PTH * IN_IMPORTED"
    )
    site = f"import site\nsite.addsitedir({str(place.installed)!r})\nimport imported\n"
    place.patch.setenv("PYTHONPATH", str(place.late))
    place.write("../late/sitecustomize.py", site + text.format("IN_MODULE", 2.0))
    place.write("../late/imported.py", text.format("IN_IMPORTED", 2.0))
    place.write("../site-packages/own.pth", "import builtins; builtins.IN_PTH = 2.0\n")
    assert place.traced() == {"one"}
    assert place.traced() == set()
    place.write("../late/imported.py", text.format("IN_IMPORTED", 3.0))
    assert place.why() == {"one": "imported changed"}
    place.write("../site-packages/own.pth", "import builtins; builtins.IN_PTH = 3.0\n")
    assert place.why() == {"one": "*.pth changed"}
    place.write("../late/sitecustomize.py", site + text.format("IN_MODULE", 3.0))
    assert place.why() == {"one": "sitecustomize changed"}
    place.write("../late/sitecustomize.py", site + text.format("IN_MODULE", 3.0) + "import jax\n")
    why = "jax is imported when Python starts, by sitecustomize or a .pth file"
    for _ in range(2):
        assert place.why() == {"one": why}
