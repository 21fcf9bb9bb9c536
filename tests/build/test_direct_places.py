"""Direct mode: files that code finds by another way than beside its own module."""

from __future__ import annotations

import os
import shutil
import threading
from contextlib import suppress
from pathlib import Path

import pytest
from support.direct import HERE, Place, manifest
from support.projects import write_project

pytestmark = [pytest.mark.process, pytest.mark.any_jax]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    return Place(tmp_path, monkeypatch)


def edit(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def test_a_link_from_elsewhere_into_the_project(place: Place, tmp_path: Path) -> None:
    """It is the link's own path that code opens, wherever it leads."""
    (link := tmp_path / "latest").symlink_to(place.root / "weights" / "1")
    modules = {
        "by_constant": f"def f(x): return x * float(open('{link}/w').read())",
        "by_variable": "import os\ndef f(x): return x * float(open(os.environ['PROJ_W']).read())",
        "by_listing": f"import os\ndef f(x): return x * len(os.listdir('{link}'))",
        "beside": HERE + "def f(x): return x * float((HERE / '../weights/1/w').read_text())",
    }
    place.patch.setenv("PROJ_W", str(link / "w"))
    write_project(place.root, manifest([*modules]), **modules)
    edit(place.root / "weights" / "1" / "w", "2")
    edit(place.root / "weights" / "2" / "w", "3")
    edit(place.root / "weights" / "2" / "more", "")
    assert place.traced() == {*modules}
    assert place.traced() == set()
    link.unlink()
    link.symlink_to(place.root / "weights" / "2")
    assert place.traced() == {*modules} - {"beside"}


def test_a_new_name_of_what_python_read_when_it_started(place: Place) -> None:
    """Installers link files of one cache into each environment, at any time."""
    start, other = place.installed / "start.pth", place.installed / "other.pth"
    start.write_text("import os\n")
    code = f"import os\nos.link('{start}', '{other}')\nos.remove('{other}')\ndef f(x): return x"
    write_project(place.root, manifest(["one"]), one=code)
    assert place.traced() == {"one"}
    assert place.traced() == set()


def test_a_link_to_a_folder_that_code_enters(place: Place, tmp_path: Path) -> None:
    """Paths are relative to where it led."""
    code = "def f(x): return x * SCALE"
    modules = {
        "by_chdir": f"import contextlib\n{HERE}with contextlib.chdir(HERE / 'latest'):\n"
        f"    SCALE = float(open('scale').read())\n{code}",
        "by_number": f"import os\n{HERE}FOLDER = os.open(HERE / 'latest', os.O_RDONLY)\n"
        f"SCALE = float(os.fdopen(os.open('scale', os.O_RDONLY, dir_fd=FOLDER)).read())\n{code}",
        "by_trying": f"import os\n{HERE}before = os.getcwd()\ntry:\n    os.chdir(HERE / 'fast')\n"
        f"    SCALE = 2\nexcept OSError:\n    SCALE = 1\nos.chdir(before)\n{code}",
        "by_touching": f"import os\n{HERE}try:\n    os.utime(HERE / 'flag')\n    SCALE = 2\n"
        f"except OSError:\n    SCALE = 1\n{code}",
    }
    write_project(place.root, manifest([*modules]), **modules)
    package = place.root / "proj"
    for version in ("1", "2"):
        edit(package / version / "scale", version)
    (package / "latest").symlink_to("1")
    assert place.traced() == {*modules}
    assert place.traced() == set()
    (package / "latest").unlink()
    (package / "latest").symlink_to("2")
    assert place.traced() == {"by_chdir", "by_number"}
    (package / "fast").mkdir()
    (package / "flag").touch()
    assert place.traced() == {"by_trying", "by_touching"}


def test_a_file_or_a_folder_that_becomes_a_link(place: Place, tmp_path: Path) -> None:
    """What is beside the place that it leads to is another file; the old one is still there."""
    resolved = "from pathlib import Path\nHERE = Path(__file__).resolve().parent\n"
    read = "def f(x): return x * float(({}).read_text())"
    modules = {
        "by_source": resolved + read.format("HERE / 'scale'"),
        "by_data": HERE + read.format("(HERE / 'names').resolve().parent / 'scale'"),
        "by_folder": HERE + read.format("(HERE / 'data').resolve().parent / 'scale'"),
        "beside": HERE + read.format("HERE / 'scale'"),
    }
    write_project(place.root, manifest([*modules]), **modules)
    package, shared = place.root / "proj", tmp_path / "shared"
    for file in (package / "scale", package / "names", package / "data" / "x"):
        edit(file, "2")
    edit(shared / "scale", "3")
    assert place.traced() == {*modules}
    assert place.traced() == set()
    for name in ("by_source.py", "names", "data"):
        (package / name).rename(shared / name)
        (package / name).symlink_to(shared / name)
    assert place.traced() == {*modules} - {"beside"}
    assert place.traced() == set()


def test_another_checkout_does_not_read_its_own_files_by_the_path_of_this_one(
    place: Place, tmp_path: Path
) -> None:
    root = place.root
    read = "def f(x): return x * float(open({}).read())"
    modules = {
        "by_variable": "import os\n" + read.format("os.environ['PROJ_W']"),
        "by_folder": "import os\n" + read.format("os.environ['PROJ_ABOVE'] + '/project/w'"),
        "by_home": "import os\n" + read.format("os.path.expanduser('~/project/w')"),
        "by_constant": read.format(f"'{root}/w'"),
        "by_setting": HERE + read.format("(HERE / 'where').read_text()"),
        "beside": HERE + read.format("HERE.parent / 'w'"),
        "by_other_path": "W = '/nowhere/project/w'\n" + HERE + read.format("HERE.parent / 'w'"),
    }
    place.patch.setenv("PROJ_W", str(root / "w"))
    place.patch.setenv("PROJ_ABOVE", str(tmp_path))
    place.patch.setenv("HOME", str(tmp_path))
    write_project(root, manifest([*modules]), **modules)
    edit(root / "w", "2")
    edit(root / "proj" / "where", str(root / "w"))
    assert place.traced() == {*modules}
    assert place.traced() == set()
    place.root = Path(shutil.copytree(root, tmp_path / "another"))
    edit(root / "w", "3")
    expected = "the project is in another folder, and something that was read says where it was"
    absolute = {*modules} - {"beside", "by_other_path"}
    assert place.why() == dict.fromkeys(absolute, expected)


def test_a_folder_above_the_project_in_the_manifest(place: Place, tmp_path: Path) -> None:
    one = "def f(x, where): return x * float(open(where + '/project/w').read())"
    call = '"proj.one:f"'
    text = manifest(["one"]).replace(call, f'{call}, static: {{where: ["{tmp_path}"]}}')
    write_project(place.root, text, one=one)
    edit(place.root / "w", "2")
    assert place.traced() == {"one"}
    assert place.traced() == set()
    place.root = Path(shutil.copytree(place.root, tmp_path / "another"))
    edit(tmp_path / "project" / "w", "3")
    assert place.traced() == {"one"}


def test_data_beside_a_module_of_another_folder(place: Place) -> None:
    """A file of the same name and content that comes first on the path hides no edit of it."""
    read = HERE + "FACTOR = float((HERE / 'data' / '{}').read_text())\n"
    edit(place.late / "dep.py", read.format("w"))
    edit(place.late / "other.py", read.format("v"))
    one = "import {0}\ndef f(x): return x * {0}.FACTOR"
    modules = {"one": one.format("dep"), "two": one.format("other")}
    write_project(place.root, manifest([*modules]), **modules)
    for name in ("v", "w"):
        edit(place.late / "data" / name, "2")
    assert place.traced() == {*modules}
    assert place.traced() == set()
    edit(place.early / "data" / "w", "2")
    edit(place.late / "data" / "w", "3")
    assert place.traced() == {"one"}
    edit(place.root / "data" / "v", "2")
    edit(place.late / "data" / "v", "3")
    assert place.traced() == {"two"}


def test_a_pipe_is_read_each_time(place: Place) -> None:
    read = HERE + "W = float((HERE / 'pipe').read_text()[:1])\ndef f(x): return x * W"
    write_project(place.root, manifest(["one"]), one=read)
    os.mkfifo(pipe := place.root / "proj" / "pipe")
    is_over = threading.Event()

    def feed() -> None:
        while not is_over.wait(0.05):
            # Without a reader it cannot be opened for writing.
            with suppress(OSError):
                number = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
                os.write(number, b"2")
                os.close(number)

    (writer := threading.Thread(target=feed)).start()
    try:
        because = {"one": f"{pipe} is a pipe or a device, which was read"}
        assert [place.why(), place.why()] == [because, because]
    finally:
        is_over.set()
        writer.join()


def test_a_function_of_the_user_s_with_a_name_of_python_s(place: Place) -> None:
    one = (
        "import os\n" + HERE + "def realpath(path): return os.stat(path).st_size\n"
        "def f(x): return x * realpath(HERE / 'w')"
    )
    write_project(place.root, manifest(["one"]), one=one)
    edit(place.root / "proj" / "w", "22")
    assert place.traced() == {"one"}
    assert place.traced() == set()
    edit(place.root / "proj" / "w", "333")
    assert place.traced() == {"one"}


CALLBACK = """
import jax
from proj import helper
def f(x): return jax.pure_callback(helper.look_up, x, x)
"""
HELPER = "def look_up(x): return x * {}\n"


def test_golden_outputs_are_those_of_the_callback_that_is_there(place: Place) -> None:
    """The module says which function it calls, and not what that does."""
    text = manifest(["one"]).replace("never", "always")
    write_project(place.root, text, one=CALLBACK, helper=HELPER.format(2))
    before = golden(place)
    assert golden(place) == before
    place.write("proj/helper.py", HELPER.format(3))
    assert golden(place) != before


def golden(place: Place) -> str:
    """Build; return the digest of the golden outputs."""
    package = place.build()[1]
    found = {record.golden.outputs.sha256 for record in package.records if record.golden}
    (digest,) = found
    return digest
