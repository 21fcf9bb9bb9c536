"""What a user may do with a file, and its extended attributes: no content says that."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from support.direct import HERE, Place, manifest
from support.projects import write_project

from aotbuild.store.file_digests import MISSING
from aotbuild.store.folder_names import executable_at, readable_at, writable_at

pytestmark = [pytest.mark.process, pytest.mark.any_jax]

OS = "import os\n" + HERE
FOLDER = HERE + "DATA = HERE / 'data'\n"
# Each asks about a file of its own name in `data`, or about all of them.
MODULES = {
    "runs": OS + FOLDER + "def f(x): return x * (2 if os.access(DATA / 'runs', os.X_OK) else 3)",
    "finds": "import shutil\n"
    + FOLDER
    + "def f(x): return x * (2 if shutil.which('finds', path=str(DATA)) else 3)",
    "by_number": OS
    + FOLDER
    + "def f(x):\n    folder = os.open(DATA, os.O_RDONLY)\n"
    + "    may = os.access('by_number', os.R_OK | os.X_OK, dir_fd=folder)\n"
    + "    os.close(folder)\n    return x * (2 if may else 3)",
    "itself": OS + "def f(x): return x * (2 if os.access(__file__, os.X_OK) else 3)",
    "appears": OS + FOLDER + "def f(x): return x * (2 if os.access(DATA / 'new', 4) else 3)",
    "exists": OS + FOLDER + "def f(x): return x * os.access(DATA / 'exists', os.F_OK)",
    "opens": FOLDER + "def f(x): return x * len((DATA / 'opens').read_text())",
}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    return Place(tmp_path, monkeypatch)


def test_whether_a_file_may_be_run(place: Place) -> None:
    write_project(place.root, manifest([*MODULES]), **MODULES)
    data = place.root / "proj" / "data"
    data.mkdir()
    for name in MODULES:
        (data / name).write_text("1")
    assert place.traced() == {*MODULES}
    assert place.traced() == set()
    for file in (*data.iterdir(), place.root / "proj" / "itself.py"):
        file.chmod(0o755)
    (data / "new").write_text("")
    assert place.why() == {
        "runs": "whether proj/data/runs is executable changed",
        "finds": "whether proj/data/finds is executable changed",
        "by_number": "whether proj/data/by_number is executable changed",
        "itself": "whether proj/itself.py is executable changed",
        "appears": "proj/data/new is there now",
    }
    assert place.traced() == set()
    (data / "runs").chmod(0o644)
    assert place.traced() == set(), "both states are known"


def test_each_kind_of_permission_is_one_answer(tmp_path: Path) -> None:
    file = tmp_path / "file"
    for ask in (readable_at, writable_at, executable_at):
        assert ask(str(file)) == MISSING
    file.touch(mode=0o600)
    assert (readable_at(str(file)), writable_at(str(file))) == ("yes", "yes")
    assert executable_at(str(file)) == "no"
    file.chmod(0o700)
    assert executable_at(str(file)) == "yes"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_whether_a_file_may_be_written(place: Place) -> None:
    code = "def f(x): return x * (2 if os.access(HERE / 'file', os.W_OK) else 3)"
    write_project(place.root, manifest(["writes"]), writes=OS + code)
    place.write("proj/file", "")
    assert place.traced() == {"writes"}
    (place.root / "proj" / "file").chmod(0o444)
    assert place.traced() == {"writes"}
    assert place.traced() == set()


ATTRIBUTES = {
    "lists": OS + "def f(x): return x * (1 + len(os.listxattr(HERE / 'file')))",
    "gets": OS + "def f(x):\n"
    "    try: return x * len(os.getxattr(HERE / 'file', 'user.aotbuild'))\n"
    "    except OSError: return x",
    "copies": "import shutil, tempfile\n"
    + HERE
    + "def f(x):\n    with tempfile.TemporaryDirectory() as folder:\n"
    "        shutil.copy2(HERE / 'file', folder + '/copy')\n        return x * 2",
}


@pytest.mark.skipif(not hasattr(os, "listxattr"), reason="Linux only")
def test_extended_attributes(place: Place) -> None:
    """What reads them is traced each time; a copy of a file with all that it has is none."""
    write_project(place.root, manifest([*ATTRIBUTES]), **ATTRIBUTES)
    place.write("proj/file", "1")
    assert place.traced() == {*ATTRIBUTES}
    assert place.why() == {
        "lists": "proj.lists reads extended attributes",
        "gets": "proj.gets reads extended attributes",
    }
