"""Direct mode: what was read decides whether a job is traced, and nothing else does."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.direct import HERE, Place, manifest
from support.installs import tree_of
from support.projects import MANIFEST, write_project

from aotbuild.errors import BuildError

pytestmark = [pytest.mark.process, pytest.mark.any_jax]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    return Place(tmp_path, monkeypatch)


# One module for each thing that a trace can read.
MODULES = {
    "by_module": "from proj import helper\ndef f(x): return x * helper.FACTOR",
    "by_relative": "from .inner import FACTOR\ndef f(x): return x * FACTOR",
    "by_sibling": "import sibling\ndef f(x): return x * sibling.FACTOR",
    "by_late_import": "def f(x):\n    from proj import inside\n    return x * inside.FACTOR",
    "by_name": (
        "import importlib\ndef f(x): return x * importlib.import_module('proj.named').FACTOR"
    ),
    "by_array": "import numpy as np\n"
    + HERE
    + "W = np.load(HERE / 'w.npy')\ndef f(x): return x @ W",
    "by_text": HERE + "def f(x): return x * float((HERE / 'factor.txt').read_text())",
    "by_listing": "import os\n" + HERE + "def f(x): return x * len(os.listdir(HERE / 'parts'))",
    "by_glob": HERE + "def f(x): return x * len(list((HERE / 'globbed').glob('*.txt')))",
    "by_missing": (
        HERE + "def f(x):\n    try: return x * float(open(HERE / 'override.txt').read())\n"
        "    except FileNotFoundError: return x"
    ),
    "by_existence": HERE + "def f(x): return x * (2 if (HERE / 'flag').exists() else 3)",
    "by_variable": "import os\ndef f(x): return x * float(os.environ.get('PROJ_FACTOR', '2'))",
    "by_getenv": "from os import getenv\ndef f(x): return x * float(getenv('PROJ_OTHER') or 2)",
    "by_no_module": (
        "try: import not_there_yet as other\nexcept ImportError: other = None\n"
        "def f(x): return x * (other.FACTOR if other else 2)"
    ),
    "by_shadow": "import shadowed\ndef f(x): return x * shadowed.FACTOR",
    "by_entry": "def f(x): return x * 2",
    "by_setting": "def f(x): return x * 2",
    "by_cache_1": "from proj.cache import load\ndef f(x): return x * load()",
    "by_cache_2": "from proj.cache import load\ndef f(x): return x + load()",
    "untouched": "def f(x): return x * 2",
}
FACTOR = "FACTOR = {}.0\n"
OTHERS = {
    **dict.fromkeys(("helper", "inner", "inside", "named"), FACTOR.format(2)),
    "cache": (
        "import functools\n" + HERE + "@functools.cache\n"
        "def load(): return float((HERE / 'cached.txt').read_text())\n"
    ),
}


def fill(place: Place) -> None:
    """Write the project with a module for each thing that can be read."""
    write_project(place.root, manifest([*MODULES]), **MODULES, **OTHERS)
    package = place.root / "proj"
    np.save(package / "w.npy", np.eye(2, dtype="float32"))
    (package / "factor.txt").write_text("2")
    (package / "cached.txt").write_text("2")
    (package / "parts").mkdir()
    (package / "globbed").mkdir()
    (place.late / "sibling.py").write_text(FACTOR.format(2))
    (place.late / "shadowed.py").write_text(FACTOR.format(2))


def edit_entry(place: Place, name: str, more: str) -> None:
    text = (place.root / MANIFEST).read_text()
    place.write(MANIFEST, text.replace(f'"proj.{name}:f"', f'"proj.{name}:f", {more}'))


# What to change for each function, so that its trace would be another one.
EDITS: dict[str, Callable[[Place], Any]] = {
    "by_module": lambda p: p.write("proj/helper.py", FACTOR.format(3)),
    "by_relative": lambda p: p.write("proj/inner.py", FACTOR.format(3)),
    "by_sibling": lambda p: p.write("../late/sibling.py", FACTOR.format(3)),
    "by_late_import": lambda p: p.write("proj/inside.py", FACTOR.format(3)),
    "by_name": lambda p: p.write("proj/named.py", FACTOR.format(3)),
    "by_array": lambda p: np.save(p.root / "proj" / "w.npy", np.ones((2, 2), "float32")),
    "by_text": lambda p: p.write("proj/factor.txt", "3"),
    "by_listing": lambda p: p.write("proj/parts/new", ""),
    "by_glob": lambda p: p.write("proj/globbed/new.txt", ""),
    "by_missing": lambda p: p.write("proj/override.txt", "3"),
    "by_existence": lambda p: p.write("proj/flag", ""),
    "by_variable": lambda p: p.patch.setenv("PROJ_FACTOR", "3"),
    "by_getenv": lambda p: p.patch.setenv("PROJ_OTHER", "3"),
    "by_no_module": lambda p: p.write("../late/not_there_yet.py", FACTOR.format(3)),
    "by_shadow": lambda p: p.write("../early/shadowed.py", FACTOR.format(3)),
    "by_entry": lambda p: edit_entry(p, "by_entry", "donate: [x]"),
    "by_setting": lambda p: edit_entry(p, "by_setting", "config: {jax_enable_x64: true}"),
    "by_cache_1": lambda p: p.write("proj/cached.txt", "3"),
    "by_cache_2": lambda p: None,  # the same file, which the other function read for both
}


def test_what_was_read_is_traced_again_and_nothing_else(place: Place) -> None:
    fill(place)
    assert place.traced() == {*MODULES}
    assert place.traced() == set()

    # What nobody read: files beside, another variable, time stamps, other entries of the manifest.
    place.write("README.md", "new")
    place.write("proj/unused.py", "new")
    place.write("proj/parts.txt", "new")
    place.patch.setenv("PROJ_UNREAD", "new")
    for path in place.root.rglob("*.py"):
        os.utime(path)
    place.write(MANIFEST, manifest([*MODULES, "new"], "# a comment\n"))
    place.write("proj/new.py", "def f(x): return x\n")
    assert place.traced() == {"new"}

    place.write(MANIFEST, manifest([*MODULES]))
    for edit in EDITS.values():
        edit(place)
    assert place.traced() == {*EDITS}
    assert place.traced() == set()
    _, direct = place.build("direct")
    _, plain = place.build("plain", direct=False)
    assert tree_of(direct.folder) == tree_of(plain.folder)

    # Undone, it is as it was: several states are kept.
    place.patch.delenv("PROJ_FACTOR")
    (place.root / "proj" / "override.txt").unlink()
    place.write("proj/helper.py", FACTOR.format(2))
    assert place.traced() == set()


def test_libraries_as_a_whole(place: Place) -> None:
    """What an installed library reads and imports belongs to every job of the process."""
    (place.installed / "library").mkdir()
    place.root.mkdir()
    place.write("../site-packages/library/__init__.py", "FACTOR = 2.0\n")
    shutil.rmtree(place.root)
    modules = {
        "one": "import library\ndef f(x): return x * library.FACTOR",
        "two": "def f(x): return x",
    }
    write_project(place.root, manifest(["one", "two"]), **modules)
    assert place.traced() == {"one", "two"}
    assert place.traced() == set()
    place.write("../site-packages/library/unused.py", "")
    assert place.traced() == set()
    place.write("../site-packages/library/__init__.py", "FACTOR = 3.0\n")
    assert "one" in place.traced()


TOUCHED = """
import os, shutil, library
from pathlib import Path
FILE = Path(library.__file__)
COPY, DONE = FILE.with_name("copy.py"), []
def f(x):
    if not DONE:
        {}
        COPY.unlink(missing_ok=True)
        DONE.append(1)
    return x * library.FACTOR
"""


@pytest.mark.parametrize(
    ("done", "traced"),
    [
        ("os.link(FILE, COPY)", set()),  # what uv does to all files for another environment
        ("shutil.copy2(FILE, COPY); os.replace(COPY, FILE)", {"one"}),
        ("os.utime(FILE)", {"one"}),
    ],
)
def test_a_library_that_is_touched_meanwhile(place: Place, done: str, traced: set[str]) -> None:
    (place.installed / "library").mkdir()
    write_project(place.root, manifest(["one"]), one=TOUCHED.format(done))
    place.write("../site-packages/library/__init__.py", "FACTOR = 2.0\n")
    assert place.traced() == {"one"}
    assert place.traced() == traced


def test_a_folder_that_changes_meanwhile(place: Place) -> None:
    """The result is that of the names that were read, not of those that are there at the end."""
    lines = (
        "def f(x):",
        "    list((HERE / 'parts').iterdir())",
        "    (HERE / 'parts' / 'new').touch()",
        "    return x",
    )
    write_project(place.root, manifest(["one"]), one=HERE + "\n".join(lines))
    (place.root / "proj" / "parts").mkdir()
    assert place.traced() == {"one"}
    assert place.traced() == {"one"}, "it was another folder at the end"
    assert place.traced() == set()


OUTSIDE = {
    "starts_process": "import subprocess\ndef f(x):\n    subprocess.run(['true'])\n    return x",
    "connects": (
        "import socket\ndef f(x):\n    try: socket.create_connection(('127.0.0.1', 9), 1)\n"
        "    except OSError: pass\n    return x"
    ),
    "reads_all_variables": "import os\ndef f(x): return x * len(dict(os.environ))",
    "loads_library": ("import ctypes\ndef f(x):\n    ctypes.CDLL('libm.so.6')\n    return x"),
}


def test_what_no_digest_stands_for_is_traced_each_time(place: Place) -> None:
    modules = {**OUTSIDE, "fine": "def f(x): return x"}
    write_project(place.root, manifest([*modules]), **modules)
    assert place.traced() == {*modules}
    assert place.traced() == {*OUTSIDE}


def test_one_edit(place: Place) -> None:
    """Functions with modules of their own are not even traced; those of one module share a file."""
    names = [f"f{number}" for number in range(6)]
    own = {name: f"def f(x): return x * {number}" for number, name in enumerate(names)}
    beside = "".join(f"def {name}(x): return x - {number}\n" for number, name in enumerate(names))
    entries = [
        f'  b_{name}: {{call: "proj.beside:{name}", args: [{{x: "f32[2]"}}]}}' for name in names
    ]
    write_project(place.root, manifest(names, "\n".join(entries)), **own, beside=beside)
    place.traced()

    place.write("proj/f3.py", "# moved\n" + own["f3"] + " + 1")
    assert place.origins() == {"f3": "compiled"}
    place.write("proj/beside.py", "# moved\n" + beside.replace("x - 3", "x - 3 + 1"))
    others = dict.fromkeys((f"b_{name}" for name in names), "stored")
    assert place.origins() == {**others, "b_f3": "compiled"}


WHY = {
    "by_file": HERE + "def f(x): return x * len((HERE / 'factor.txt').read_text())",
    "by_secret": HERE + "def f(x): return x * len((HERE / '.secret').read_text())",
    "by_variable": "import os\ndef f(x): return x * float(os.environ.get('PROJ_FACTOR', '2'))",
    "by_module": "from proj import helper\ndef f(x): return x * helper.FACTOR",
    "by_missing": "try: import not_there\nexcept ImportError: pass\ndef f(x): return x",
    "by_process": OUTSIDE["starts_process"],
    "same": "def f(x): return x",
}


def test_why_something_is_traced_again(place: Place) -> None:
    """The first thing that differs is named, never its value."""
    write_project(place.root, manifest([*WHY]), **WHY, helper=FACTOR.format(2))
    (place.root / "proj" / "factor.txt").write_text("a")
    (place.root / "proj" / ".secret").write_text("a")
    process = {"by_process": "proj.by_process starts a process"}
    nothing = dict.fromkeys(WHY, "")
    assert place.why() == {**nothing, **process}
    assert place.why() == process

    (place.root / "proj" / "factor.txt").write_text("b")
    (place.root / "proj" / ".secret").write_text("b")
    place.patch.setenv("PROJ_FACTOR", "2")
    place.write("proj/helper.py", FACTOR.format(2) + "# edited\n")
    (place.late / "not_there.py").write_text("")
    found = place.why()
    # What a secret is, nothing says: it is one of those that are there.
    assert found.pop("by_secret").startswith(
        ("proj/.secret changed", "one of these changed: proj/.secret, ")
    )
    assert found == {
        "by_file": "proj/factor.txt changed",
        "by_variable": "PROJ_FACTOR is set now",
        "by_module": "proj.helper changed",
        "by_missing": "not_there is there now",
        **process,
    }
    origins = place.build()[1].origins
    assert (origins.stored, origins.direct) == (7, 6)
    assert origins.traced_because == {process["by_process"]: 1}

    place.patch.setenv("PROJ_FACTOR", "2.0")
    (place.root / "proj" / "factor.txt").write_text("cc")
    found = place.why()
    assert found.pop("by_variable").startswith(
        ("PROJ_FACTOR changed", "one of these changed: PROJ_FACTOR, ")
    )
    assert found == {"by_file": "proj/factor.txt changed", **process}


def test_a_module_that_becomes_a_package(place: Place) -> None:
    """Its file says the same, and is at another place; a variable is set, and has nothing to do."""
    place.patch.setenv("PROJ_FACTOR", "2")
    one = (
        "import os\nfrom proj import helper\nIS_SET = 'PROJ_FACTOR' in os.environ\n"
        "def f(x): return x * helper.FACTOR if IS_SET else x"
    )
    write_project(place.root, manifest(["one"]), one=one, helper=FACTOR.format(2))
    place.traced()
    (place.root / "proj" / "helper").mkdir()
    (place.root / "proj" / "helper.py").rename(place.root / "proj" / "helper" / "__init__.py")
    assert place.why() == {"one": "proj.helper changed"}

    # Units that are compiled count, too; and a variable that is empty is set.
    place.write("proj/helper/__init__.py", FACTOR.format(3))
    origins = place.build()[1].origins
    assert (origins.compiled, origins.traced_because) == (1, {"proj.helper changed": 1})


def test_random_numbers(place: Place) -> None:
    """What differs from trace to trace is refused as ever, and never kept."""
    text = "import random, time\ndef f(x): return x * {}"
    modules = {"draws": text.format("random.random()"), "asks": text.format("time.time_ns()")}
    write_project(place.root, manifest([*modules]), **modules)
    for _ in range(2):
        with pytest.raises(BuildError) as caught:
            place.build()
        assert {failure.stage for failure in caught.value.failures} == {"trace"}
        assert len(caught.value.failures) == 2


def test_a_function_that_fails_is_traced_again(place: Place) -> None:
    modules = {"fine": "def f(x): return x", "fails": "def f(x): raise ValueError('no')"}
    write_project(place.root, manifest([*modules]), **modules)
    for _ in range(2):
        with pytest.raises(Exception, match="no"):
            place.build()


# What a golden call raises, and whether the next build may fare better.
RAISED = {
    "memory": ("MemoryError('no room')", True),
    "network": ("TimeoutError('no answer')", True),
    "xla": ("jax.errors.JaxRuntimeError('RESOURCE_EXHAUSTED: Out of memory')", True),
    "by_value": ("ValueError('an OSError: no')", False),
}


def test_golden_outputs_that_an_error_left_out(place: Place) -> None:
    """An error of the machine is not kept as a result; one of the function is."""
    text = "import jax\ndef host(x): raise {}\ndef f(x): return jax.pure_callback(host, x, x)"
    modules = {name: text.format(error) for name, (error, _) in RAISED.items()}
    again = {name for name, (_, is_transient) in RAISED.items() if is_transient}
    write_project(place.root, manifest([*modules]).replace("never", "auto"), **modules)
    assert place.traced() == {*modules}
    assert place.traced() == again


def test_switched_off(place: Place) -> None:
    write_project(place.root, manifest(["one"]), one="def f(x): return x")
    assert place.build(direct=False)[0] == {"one()"}
    assert place.build()[0] == {"one()"}, "nothing was kept"
    assert place.build(direct=False)[0] == {"one()"}
    place.patch.setenv("AOTBUILD_DIRECT", "off")
    assert place.build()[0] == {"one()"}
    place.patch.setenv("AOTBUILD_DIRECT", "on")
    assert place.build()[0] == set()
    place.patch.setenv("AOTBUILD_STORE", "off")
    assert place.build()[0] == {"one()"}
