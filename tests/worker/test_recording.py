"""The ways to read something that a recorder of Python code might miss."""

from __future__ import annotations

import os
import py_compile
import re
import sqlite3
import zipfile
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from support.direct import HERE, Place, manifest
from support.processes import TESTS
from support.projects import write_project

import aotbuild
from aotbuild.worker.recording.natives import READERS

pytestmark = pytest.mark.process

_FACTOR = "FACTOR = {}.0\n"
# Each is a module of the project; its function depends on one thing.
MODULES = {
    "by_file_location": (
        "from importlib.util import module_from_spec, spec_from_file_location\n"
        + HERE
        + "def f(x):\n"
        "    spec = spec_from_file_location('settings_of_mine', HERE / 'data' / 'settings.py')\n"
        "    module = module_from_spec(spec)\n    spec.loader.exec_module(module)\n"
        "    return x * module.FACTOR"
    ),
    "by_run_path": (
        "import runpy\n" + HERE + "def f(x):\n"
        "    return x * runpy.run_path(str(HERE / 'data' / 'script.py'))['FACTOR']"
    ),
    "by_link": (
        HERE + "def f(x):\n"
        "    latest = (HERE / 'data' / 'latest').resolve()\n    return x * "
        "float((latest / 'w').read_text())"
    ),
    "by_readlink": (
        "import os\n" + HERE + "def f(x): return x * float(os.readlink(HERE / 'data' / 'number'))"
    ),
    "by_same_file": (
        HERE
        + "def f(x):\n    one, other = HERE / 'data' / 'latest' / 'w', HERE / 'data' / '2' / 'w'\n"
        "    return x * (2 if one.samefile(other) else 3)"
    ),
    "by_broken_link": (
        "import os\n"
        + HERE
        + "def f(x): return x * (2 if os.path.lexists(HERE / 'data' / 'broken2') else 3)"
    ),
    "by_link_in_folder": (
        "import os\n"
        + HERE
        + "def f(x): return x * sum(e.is_symlink() for e in os.scandir(HERE / 'data' / 'linked'))"
    ),
    "by_memmap": (
        "import numpy as np\n" + HERE + "def f(x):\n"
        "    return x * np.array(np.memmap(HERE / 'data' / 'mapped', 'float32', shape=(2,)))"
    ),
    "by_spec": (
        "from importlib.util import find_spec\n"
        "def f(x): return x * (2 if find_spec('found_only') else 3)"
    ),
    "by_descriptor": (
        "import os\n"
        + HERE
        + "def f(x):\n    number = os.open(HERE / 'data' / 'parts', os.O_RDONLY)\n"
        "    try: return x * len(os.listdir(number))\n    finally: os.close(number)"
    ),
    "by_folder_descriptor": (
        "import os\n" + HERE + "def f(x):\n    folder = os.open(HERE / 'data', os.O_RDONLY)\n"
        "    number = os.open('relative', os.O_RDONLY, dir_fd=folder)\n"
        "    try: return x * float(os.read(number, 9))\n    "
        "finally: os.close(number); os.close(folder)"
    ),
    "by_size": (HERE + "def f(x): return x * (HERE / 'data' / 'sized').stat().st_size"),
    "by_getsize": (
        "import os\n" + HERE + "def f(x): return x * os.path.getsize(HERE / 'data' / 'sized2')"
    ),
    "by_resource": (
        "from importlib.resources import files\n"
        "def f(x): return x * float(files('proj').joinpath('data', 'resource').read_text())"
    ),
    "by_get_data": (
        "import pkgutil\ndef f(x): return x * float(pkgutil.get_data('proj', 'data/got.py'))"
    ),
    "by_plugins": (
        "import pkgutil\n" + HERE + "def f(x):\n"
        "    return x * len(list(pkgutil.iter_modules([str(HERE / 'plugins')])))"
    ),
    "by_zip": (
        "import zipfile\n" + HERE + "def f(x):\n"
        "    return x * float(zipfile.ZipFile(HERE / 'data' / 'archive.zip').read('factor'))"
    ),
    "by_zip_import": (
        "import sys\n" + HERE + "def f(x):\n    import zipimport\n"
        "    importer = zipimport.zipimporter(str(HERE / 'data' / 'code.zip'))\n"
        "    return x * importer.load_module('zipped').FACTOR"
    ),
    "by_mmap": (
        "import mmap\n" + HERE + "def f(x):\n    with open(HERE / 'data' / 'mm', 'rb') as file:\n"
        "        return x * float(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)[:1])"
    ),
    "by_fromfile": (
        "import numpy as np\n"
        + HERE
        + "def f(x): return x * np.fromfile(HERE / 'data' / 'raw', 'float32')"
    ),
    "by_loadtxt": (
        "import numpy as np\n"
        + HERE
        + "def f(x): return x * np.loadtxt(HERE / 'data' / 'table', 'float32')"
    ),
    "by_sqlite": (
        "import sqlite3\n" + HERE + "def f(x):\n"
        "    base = sqlite3.connect(f'file:{HERE}/data/base.db?mode=ro', uri=True)\n"
        "    return x * base.execute('select * from t').fetchone()[0]"
    ),
    "by_namespace": "import spread.part as part\ndef f(x): return x * part.FACTOR",
    "by_walk": (
        "import os\n"
        + HERE
        + "def f(x): return x * sum(len(n) for _, _, n in os.walk(HERE / 'data' / 'tree'))"
    ),
    "by_expandvars": (
        "import os\ndef f(x): return x * float(os.path.expandvars('$PROJ_EXPANDED'))"
    ),
    "by_membership": "import os\ndef f(x): return x * (2 if 'PROJ_MEMBER' in os.environ else 3)",
    "by_bytes": "import os\ndef f(x): return x * float(os.getenvb(b'PROJ_BYTES') or 2)",
    "by_exec": HERE + "def f(x):\n    names = {}\n"
    "    exec((HERE / 'data' / 'code.txt').read_text(), names)\n    return x * names['FACTOR']",
    "by_code_in_exec": HERE + "def f(x):\n    names = {}\n"
    "    exec(f'FACTOR = float(open({str(HERE)!r} + \"/data/inner\").read())', names)\n"
    "    return x * names['FACTOR']",
    "by_import_of_two": "from proj.two import FACTOR\ndef f(x): return x * FACTOR",
    "untouched": "def f(x): return x * 2",
}
# What is read in a thread without code of the user's belongs to every function of the process.
IN_THREADS = {
    "by_threads": (
        "import numpy as np\nfrom concurrent.futures import ThreadPoolExecutor\n"
        + HERE
        + "def f(x):\n"
        "    with ThreadPoolExecutor(2) as pool:\n"
        "        (w,) = pool.map(np.load, [HERE / 'data' / 'w.npy'])\n    return x @ w"
    ),
    "by_thread_of_stdlib": (
        "from concurrent.futures import ThreadPoolExecutor\n" + HERE + "def f(x):\n"
        "    with ThreadPoolExecutor(2) as pool:\n"
        "        (w,) = pool.map(Path.read_text, [HERE / 'data' / 'text'])\n    return x * float(w)"
    ),
}
OTHERS = {
    "two": "from proj.three import FACTOR\n",
    "three": "from proj.four import *\n",
    "four": _FACTOR.format(2),
}


def _zip(path: Path, name: str, text: str) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(name, text)


def _base(path: Path, number: int) -> None:
    path.unlink(missing_ok=True)
    with closing(sqlite3.connect(path)) as base, base:
        base.execute("create table t (x)")
        base.execute(f"insert into t values ({number})")


def _link(path: Path, to: str) -> None:
    path.unlink(missing_ok=True)
    path.symlink_to(to)


def fill(place: Place, number: int) -> None:
    """Write what the modules read: with another number, each of them gives another result."""
    data, n = place.root / "proj" / "data", str(number)
    texts = {
        "settings.py": _FACTOR.format(n),
        "script.py": _FACTOR.format(n),
        "text": n,
        "relative": n,
        "sized": "x" * number,
        "sized2": "x" * number,
        "resource": n,
        "got.py": n,
        "mm": n,
        "table": f"{n} {n}",
        "code.txt": _FACTOR.format(n),
        "inner": n,
        f"parts/{n}": "",
        f"tree/a/b/{n}": "",
        "linked/b": "",
        f"../plugins/plugin{n}.py": "",
        "../four.py": _FACTOR.format(n),
        "../../../late/spread/part.py": _FACTOR.format(n),
    }
    for name, text in texts.items():
        (data / name).parent.mkdir(parents=True, exist_ok=True)
        (data / name).write_text(text)
    for folder in ("2", "3"):
        (data / folder).mkdir(exist_ok=True)
        (data / folder / "w").write_text(folder)
    _link(data / "latest", n)
    _link(data / "number", n)
    for name in ("broken2", "linked/a"):
        (data / name).unlink(missing_ok=True)
    if number == 2:
        _link(data / "broken2", "nowhere")
        _link(data / "linked" / "a", "b")
    else:
        (data / "linked" / "a").write_text("")
    np.full(2, number, "float32").tofile(data / "mapped")
    np.full(2, number, "float32").tofile(data / "raw")
    np.save(data / "w.npy", np.full((2, 2), number, "float32"))
    _zip(data / "archive.zip", "factor", n)
    _zip(data / "code.zip", "zipped.py", _FACTOR.format(n))
    _base(data / "base.db", number)
    for name in ("PROJ_EXPANDED", "PROJ_BYTES"):
        place.patch.setenv(name, n)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    return Place(tmp_path, monkeypatch)


def test_threads(place: Place) -> None:
    modules = {**IN_THREADS, "beside": "def f(x): return x"}
    write_project(place.root, manifest([*modules]), **modules)
    fill(place, 2)
    assert place.traced() == {*modules}
    assert place.traced() == set()
    fill(place, 3)
    assert {*IN_THREADS} <= place.traced()
    assert place.traced() == set()


def test_each_way_to_read(place: Place) -> None:
    write_project(place.root, manifest([*MODULES]), **MODULES, **OTHERS)
    fill(place, 2)
    place.write("../late/found_only.py", "")
    assert place.traced() == {*MODULES}
    assert place.traced() == set()
    fill(place, 3)
    (place.late / "found_only.py").unlink()
    place.patch.setenv("PROJ_MEMBER", "")
    assert {*MODULES} - place.traced() == {"untouched"}
    assert place.traced() == set()


def test_in_another_folder(place: Place, tmp_path: Path) -> None:
    """Names are not paths: the same project elsewhere is the same, links and all."""
    write_project(place.root, manifest([*MODULES]), **MODULES, **OTHERS)
    fill(place, 2)
    assert place.traced() == {*MODULES}
    place.root = place.root.rename(tmp_path / "elsewhere")
    assert place.traced() == set()


# What nothing stands for: it is traced in each build.
ALWAYS = {
    "spawns": (
        "import multiprocessing\ndef f(x):\n"
        "    context = multiprocessing.get_context('spawn')\n"
        "    with context.Pool(1) as pool: pool.map(len, ['a'])\n    return x"
    ),
    "reads_natively": "import h5py\ndef f(x): return x",
    "reads_a_matrix": "import io\nfrom scipy.io import mmread\n"
    "TEXT = '%%MatrixMarket matrix array real general\\n1 1\\n2\\n'\n"
    "FACTOR = float(mmread(io.BytesIO(TEXT.encode()))[0, 0])\ndef f(x): return x * FACTOR",
    "reads_natively_by_another": "import around.inside\ndef f(x): return x",
    "counts_variables": "import os\ndef f(x): return x * (len(os.environ) > 0)",
}


def test_what_nothing_stands_for(place: Place) -> None:
    modules = {**ALWAYS, "fine": "import harmless, scipy.linalg\ndef f(x): return x"}
    write_project(place.root, manifest([*modules]), **modules)
    (place.installed / "around").mkdir()
    place.write("../site-packages/around/__init__.py", "")
    place.write("../site-packages/around/inside.py", "def f():\n    import h5py\nf()\n")
    place.write("../site-packages/harmless.py", "")
    place.write("../site-packages/h5py.py", "")
    assert place.traced() == {*modules}
    assert place.traced() == {*ALWAYS}


def test_libraries_that_look_for_variables(place: Place) -> None:
    """`tqdm` goes through all of them; those that begin with its name count, and no others."""
    (place.installed / "tqdm").mkdir()
    (place.installed / "tqdm" / "__init__.py").write_text("from tqdm.utils import found\n")
    (place.installed / "tqdm" / "utils.py").write_text(
        "import os\nfound = {k: v for k, v in os.environ.items() if k.startswith('TQDM_')}\n",
    )
    write_project(
        place.root, manifest(["one"]), one="import tqdm\ndef f(x): return x * len(tqdm.found)"
    )
    assert place.traced() == {"one"}
    place.patch.setenv("OTHER_VARIABLE", "1")
    assert place.traced() == set()
    place.patch.setenv("TQDM_NEW", "1")
    assert place.traced() == {"one"}


def test_a_library_that_reads_the_sources_of_its_callers(place: Place) -> None:
    """An edit of one of them concerns this one, although a library has read all."""
    (place.installed / "quoting.py").write_text("import inspect\nquote = inspect.getsource\n")
    text = "import quoting\ndef f(x): return x * len(quoting.quote(f))"
    names = ["one", "two", "three"]
    write_project(place.root, manifest(names), **dict.fromkeys(names, text))
    assert place.traced() == {*names}
    place.write("proj/one.py", text + " + 1")
    assert place.traced() == {"one"}


def test_libraries_with_native_readers_are_listed() -> None:
    page = (TESTS.parent / "docs" / "explanation" / "direct.md").read_text(encoding="utf-8")
    listed = re.search(r"These are known: ([\w.,\s]+)\. pandas", page)
    assert listed is not None
    assert re.split(r",\s+", listed[1]) == sorted(READERS, key=str.lower)


def test_old_bytecode(place: Place) -> None:
    """Two versions of a source with the same time and size: Python takes the bytecode of one.

    The wheel has the other.
    """
    write_project(place.root, manifest(["one"]), one="def f(x): return x * 2")
    source = place.root / "proj" / "one.py"
    py_compile.compile(str(source))
    times = source.stat()
    source.write_text("def f(x): return x * 3")
    os.utime(source, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert place.traced() == {"one"}
    library = aotbuild.load(place.root.parent / "out" / "_aot")
    assert library.one(np.ones(2, np.float32)).tolist() == [3, 3]
    assert place.traced() == set()


MEMORY = Path("/dev/shm")


@pytest.mark.skipif(not os.access(MEMORY, os.W_OK), reason="needs a file system in memory")
def test_data_among_folders_of_the_system(place: Place) -> None:
    """Users put data there, too."""
    with TemporaryDirectory(dir=MEMORY) as name:
        folder = Path(name)
        modules = {
            "by_file": f"def f(x): return x * float(open('{folder}/factor').read())",
            "by_names": f"import os\ndef f(x): return x * len(os.listdir('{folder}'))",
            "by_no_file": f"import os\ndef f(x): return x * os.path.exists('{folder}/flag')",
            "by_nothing": "def f(x): return x * (open('/proc/self/stat').read() > '')",
        }
        (folder / "factor").write_text("2")
        write_project(place.root, manifest([*modules]), **modules)
        assert place.traced() == {*modules}
        assert place.traced() == set()
        (folder / "factor").write_text("3")
        assert place.traced() == {"by_file"}
        (folder / "flag").touch()
        assert place.traced() == {"by_names", "by_no_file"}
