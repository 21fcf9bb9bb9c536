"""What the standard library reads on behalf of functions, in native code or through its caches."""

from __future__ import annotations

import shutil
import sqlite3
import struct
from pathlib import Path

import pytest
from support.direct import HERE, Place, manifest
from support.projects import write_project

pytestmark = [pytest.mark.process, pytest.mark.any_jax]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    return Place(tmp_path, monkeypatch)


METADATA = "Metadata-Version: 2.1\nName: {}\nVersion: 1.{}\nSummary: {}\n"
DISTRIBUTIONS = {
    "by_summary": "from importlib.metadata import metadata\n"
    "def f(x): return x * float(metadata('some')['Summary'])",
    "by_version": "from importlib.metadata import version\n"
    "def f(x): return x * float(version('legacy'))",
    "by_file_of_distribution": "from importlib.metadata import files\n"
    "def f(x): return x * float(next(p for p in files('some') if p.name == 'd').read_text())",
    "by_no_distribution": "from importlib.metadata import distributions\n"
    "def f(x): return x * len([d for d in distributions() if d.name == 'no'])",
}


def test_distributions(place: Place) -> None:
    write_project(place.root, manifest([*DISTRIBUTIONS]), **DISTRIBUTIONS)
    for folder in ("some-1.0.dist-info", "legacy.egg-info"):
        (place.late / folder).mkdir()

    def fill(number: int) -> None:
        place.write("../late/some-1.0.dist-info/METADATA", METADATA.format("some", 0, number))
        place.write("../late/some-1.0.dist-info/RECORD", "d,,\n")
        place.write("../late/d", str(number))
        place.write("../late/legacy.egg-info/PKG-INFO", METADATA.format("legacy", number, ""))

    fill(2)
    assert place.traced() == {*DISTRIBUTIONS}
    assert place.traced() == set()
    fill(3)
    assert {*DISTRIBUTIONS} - {"by_no_distribution"} <= place.traced()


DATABASES = {
    "by_log": HERE
    + "import sqlite3\nbase = sqlite3.connect(f'file:{HERE}/log.db?mode=ro', uri=True)\n"
    "FACTOR = base.execute('select x from t').fetchone()[0]\nbase.close()\n"
    "def f(x): return x * FACTOR",
    "by_attached": HERE + "from sqlite3 import connect\nbase = connect(':memory:')\n"
    "base.execute(f\"attach '{HERE / 'attached.db'}' as other\")\n"
    "FACTOR = base.execute('select x from other.t').fetchone()[0]\nbase.close()\n"
    "def f(x): return x * FACTOR",
    "by_parameter": HERE + "from sqlite3 import connect\nbase = connect(':memory:')\n"
    "base.execute('attach ? as other', (str(HERE / 'attached.db'),))\n"
    "FACTOR = base.execute('select x from other.t').fetchone()[0]\nbase.close()\n"
    "def f(x): return x * FACTOR",
}


def _write(base: sqlite3.Connection, number: int) -> None:
    base.execute("create table if not exists t (x)")
    base.execute("delete from t")
    base.execute("insert into t values (?)", (number,))
    base.commit()


def test_databases(place: Place, tmp_path: Path) -> None:
    """What is beside a database counts, too: changes that are not in it yet.

    As root, SQLite sets the owner of that file when it reads it, so `by_log` is traced each time.
    """
    write_project(place.root, manifest([*DATABASES]), **DATABASES)
    package = place.root / "proj"
    log = sqlite3.connect(tmp_path / "log.db")
    attached = sqlite3.connect(package / "attached.db")
    log.execute("pragma journal_mode=wal")

    def fill(number: int) -> None:
        for base in (log, attached):
            _write(base, number)
        for name in ("log.db", "log.db-wal"):
            shutil.copyfile(tmp_path / name, package / name)

    fill(2)
    before = (package / "log.db").read_bytes()
    assert place.traced() == {*DATABASES}
    why = "proj.by_parameter attaches a database that a parameter names"
    assert place.why()["by_parameter"] == why
    fill(3)
    assert (package / "log.db").read_bytes() == before
    assert place.traced() == {*DATABASES}
    for base in (log, attached):
        base.close()


CACHED = {
    "lines": HERE
    + "import linecache\nFACTOR = float(linecache.getline(str(HERE / 'lines.txt'), 1))\n",
    "texts": HERE + "import gettext\n"
    "FACTOR = float(gettext.translation('d', HERE, ['xx']).gettext('k'))\n",
}


def _catalogue(text: str) -> bytes:
    """Return a catalogue of gettext with one text, whose name is `k`."""
    head = struct.pack("<7I", 0x950412DE, 0, 1, 28, 36, 0, 44)
    places = struct.pack("<4I", 1, 44, len(text), 46)
    return head + places + b"k\0" + text.encode() + b"\0"


def test_caches(place: Place) -> None:
    """The second function gets what the first one has read, and depends on it as much."""
    modules = {
        f"{n}{i}": f"{t}def f(x): return x * FACTOR" for n, t in CACHED.items() for i in (1, 2)
    }
    write_project(place.root, manifest([*modules]), **modules)
    (place.root / "proj" / "xx" / "LC_MESSAGES").mkdir(parents=True)

    def fill(number: str) -> None:
        place.write("proj/lines.txt", number)
        (place.root / "proj" / "xx" / "LC_MESSAGES" / "d.mo").write_bytes(_catalogue(number))

    fill("2")
    assert place.traced() == {*modules}
    assert place.traced() == set()
    fill("3")
    assert place.traced() == {*modules}
