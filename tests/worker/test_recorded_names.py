"""The names of what a trace reads: they mean the same where they are looked up, or are not kept."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from support.direct import HERE, Place, manifest
from support.projects import write_project

pytestmark = [pytest.mark.process, pytest.mark.any_jax]

PLAIN = HERE + "def f(x): return x * len(str(HERE.resolve() / 'file'))"
# Bytes that are no UTF-8, in names of files and in values.
NOT_UTF8 = {
    "lists": "import os\n" + HERE + "def f(x): return x * len(os.listdir(HERE / 'odd'))",
    "asks": "import os\ndef f(x): return x * len(os.environ['PROJ_ODD'])",
    "opens": "import os\n"
    + HERE
    + "def f(x): return x * len(open(os.fsencode(HERE) + b'/odd/\\xe9').read())",
}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    return Place(tmp_path, monkeypatch)


def test_what_is_not_utf8(place: Place) -> None:
    """A digest stands for such values and listed names; such a name itself is in no entry."""
    write_project(place.root, manifest([*NOT_UTF8]), **NOT_UTF8)
    folder = place.root / "proj" / "odd"
    folder.mkdir()
    (folder / os.fsdecode(b"\xe9")).write_text("a")
    place.patch.setenv("PROJ_ODD", "\udce9")
    not_kept = {"opens": "a name that was read is not UTF-8"}
    assert place.why() == {"lists": "", "asks": "", **not_kept}
    assert place.why() == not_kept
    (folder / os.fsdecode(b"\xe8")).write_text("a")
    place.patch.setenv("PROJ_ODD", "\udce9\udce9")
    assert place.traced() == {*NOT_UTF8}


def test_two_checkouts_with_a_file_beside_each(place: Place, tmp_path: Path) -> None:
    """It is reached from the project, so each has its own, below the home folder or not."""
    text = HERE + "def f(x): return x * len((HERE.parents[1] / 'shared' / '{}').read_text())"
    modules = {"elsewhere": text.format("a"), "below_home": text.format("b")}
    for name, size in (("one", 2), ("two", 3)):
        place.root = tmp_path / name / "project"
        write_project(place.root, manifest([*modules]), **modules)
        (tmp_path / name / "shared").mkdir()
        for file in ("a", "b"):
            (tmp_path / name / "shared" / file).write_text("x" * size)
    for home in (tmp_path / "none", tmp_path):
        place.patch.setenv("HOME", str(home))
        place.patch.setenv("AOTBUILD_STORE", str(home / "store"))
        for name in ("two", "one"):
            place.root = tmp_path / name / "project"
            assert place.traced() == {*modules}
        assert place.traced() == set()


def test_two_dots_behind_a_link(place: Place) -> None:
    text = HERE + "def f(x): return x * len(open(f'{HERE}/link/../size').read())"
    write_project(place.root, manifest(["one"]), one=text)
    package = place.root / "proj"
    (package / "real" / "inner").mkdir(parents=True)
    (package / "real" / "size").write_text("x")
    (package / "other" / "inner").mkdir(parents=True)
    (package / "other" / "size").write_text("xxx")
    (package / "link").symlink_to("real/inner")
    assert place.traced() == {"one"}
    assert place.traced() == set()
    (package / "real" / "size").write_text("xx")
    assert place.traced() == {"one"}
    (package / "link").unlink()
    (package / "link").symlink_to("other/inner")
    assert place.traced() == {"one"}


# Each depends on the folder that the build is started in.
BY_WORKING_FOLDER = {
    "opens": "def f(x): return x * len(open('size').read())",
    "asks": "import os\ndef f(x): return x * len(os.path.basename(os.getcwd()))",
    "looks": "import os\ndef f(x): return x * (2 if os.path.exists('size') else 3)",
}


def test_the_working_folder(place: Place) -> None:
    """It counts for what asks for it, relative to the project."""
    write_project(
        place.root, manifest([*BY_WORKING_FOLDER, "fine"]), **BY_WORKING_FOLDER, fine=PLAIN
    )
    (place.root / "size").write_text("xx")
    (place.root / "proj" / "size").write_text("xxx")
    place.patch.chdir(place.root)
    assert place.traced() == {*BY_WORKING_FOLDER, "fine"}
    assert place.traced() == set()
    place.patch.chdir(place.root / "proj")
    assert place.why() == dict.fromkeys(BY_WORKING_FOLDER, "the working folder is another one")
    place.patch.chdir(place.root.parent)
    place.root = place.root.rename(place.root.with_name("elsewhere"))
    place.patch.chdir(place.root)
    assert place.traced() == set()


# What says where something is counts if the function asks, not for a name that nobody knows.
WHEREABOUTS = {
    "finds": "import shutil\ndef f(x): return x * (2 if shutil.which('proj-tool') else 3)",
    "temporary": "import tempfile\ndef f(x): return x * len(tempfile.gettempdir())",
    "home": "from pathlib import Path\ndef f(x): return x * len(str(Path.home()))",
}
MAKES = "import tempfile\ndef f(x):\n    with tempfile.TemporaryDirectory(): pass\n    return x"


def test_variables_that_say_where_something_is(place: Place, tmp_path: Path) -> None:
    write_project(place.root, manifest([*WHEREABOUTS, "makes"]), **WHEREABOUTS, makes=MAKES)
    assert place.traced() == {*WHEREABOUTS, "makes"}
    assert place.traced() == set()
    for name in ("PATH", "TMPDIR", "HOME"):
        place.patch.setenv(name, str(tmp_path))
    found, expected = place.why(), {"finds": "PATH", "temporary": "TMPDIR", "home": "HOME"}
    assert found.keys() == expected.keys()
    assert all(variable in found[name] for name, variable in expected.items()), found
