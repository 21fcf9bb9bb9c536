"""What a build changes itself: its result is that of what was there before, so it is not kept."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.direct import HERE, Place, manifest
from support.projects import write_project

pytestmark = [pytest.mark.process, pytest.mark.any_jax]

_READ = "FACTOR = float(FILE.read_text())\n"
_F = "def f(x): return x * FACTOR"


def _with(name: str, lines: str) -> str:
    return f"import os, tempfile\n{HERE}FILE = HERE / '{name}'\n{lines}{_F}"


# Each makes or changes a file, which the next build finds.
PERSISTENT = {
    "default": _with("default", "if not FILE.exists():\n    FILE.write_text('2')\n" + _READ),
    "exclusive": _with(
        "exclusive",
        "try:\n    with open(FILE, 'x') as file: file.write('2')\nexcept OSError: pass\n" + _READ,
    ),
    "marker": _with("marker", "FACTOR = 3 if FILE.exists() else 2\nFILE.touch()\n"),
    "sized": _with(
        "sized", "FACTOR = os.path.getsize(FILE)\nopen(FILE, 'a').write('x' * (FACTOR < 5))\n"
    ),
    "linked": _with(
        "linked",
        "FACTOR = len(os.readlink(FILE))\n"
        "if FACTOR == 1:\n    FILE.unlink(); FILE.symlink_to('22')\n",
    ),
    "deletes": _with(
        "deletes", "FACTOR = 2\nif FILE.exists():\n    FACTOR = 3\n    FILE.unlink()\n"
    ),
}
# It is written again whenever its module is traced, and read by another one.
WRITES = {
    "a_writer": _with("made", "FILE.write_text((HERE / 'source').read_text())\n" + _READ),
    "b_reader": _with("made", _READ),
}
# What they read is as it was, or nobody but they can have written it.
KEPT = {
    "appends": _with("log", "open(FILE, 'a').close()\n" + _READ),
    "temporary": _with(
        "source",
        "with tempfile.TemporaryDirectory() as folder:\n"
        "    copy = Path(folder) / 'a' / 'copy'\n    copy.parent.mkdir()\n"
        "    copy.write_text(FILE.read_text())\n"
        "    FACTOR = float(copy.read_text()) * len(list(copy.parent.iterdir()))\n",
    ),
    "named": _with(
        "source",
        "with tempfile.NamedTemporaryFile('w') as file:\n"
        "    file.write(FILE.read_text()); file.flush()\n"
        "    FACTOR = float(Path(file.name).read_text())\n",
    ),
    "staged": _with(
        "source",
        "COPY = Path(tempfile.mkdtemp()) / 'copy'\nCOPY.write_text(FILE.read_text())\n"
        "FACTOR = float(COPY.read_text())\n",
    ),
}
STAGED_LINK = _with(
    "source",
    "with tempfile.TemporaryDirectory() as folder:\n"
    "    os.symlink(FILE, folder + '/copy')\n    FACTOR = float(open(folder + '/copy').read())\n",
)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    return Place(tmp_path, monkeypatch)


def test_what_the_build_changes_itself(place: Place) -> None:
    write_project(place.root, manifest([*PERSISTENT]), **PERSISTENT)
    package = place.root / "proj"
    (package / "sized").write_text("xxxx")
    (package / "linked").symlink_to("1")
    (package / "deletes").touch()
    found = {name: text.rpartition("/")[2] for name, text in place.why().items()}
    assert found == {name: f"{name} was written to while it was used" for name in PERSISTENT}
    assert place.traced() == {*PERSISTENT}, "another result, which depends on what is there"
    assert place.traced() == set()
    for name in ("default", "exclusive"):
        (package / name).write_text("3")
    (package / "marker").unlink()
    assert place.traced() == {"default", "exclusive", "marker"}


def test_what_one_module_writes_and_another_reads(place: Place) -> None:
    modules = {**WRITES, **KEPT, "staged_link": STAGED_LINK}
    write_project(place.root, manifest([*modules]), **modules)
    for name in ("source", "log"):
        (place.root / "proj" / name).write_text("2")
    assert place.traced() == {*modules}
    # The writer reads what an earlier build left, as far as anybody knows.
    assert place.traced() == {*WRITES, "staged_link"}
    for name in ("source", "log"):
        (place.root / "proj" / name).write_text("3")
    assert {*WRITES, *KEPT} <= place.traced()
