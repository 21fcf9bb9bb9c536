"""What may be wrong with a folder of the store: each is harmless, or one clear warning."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from support.cli import invoke
from support.full_disk import full_disk
from support.processes import clean_environment
from support.projects import write_project

from aotbuild.store.entry import Entry, write_entry
from aotbuild.store.folder import Folder
from aotbuild.store.keys import key_of
from aotbuild.store.layers import Layers, open_store

KEY, OTHER = key_of({"a": 1}), key_of({"a": 2})
ENTRY = Entry({"flops": 2.0}, b"code")
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


def layers(*items: object) -> Layers:
    return open_store({"AOTBUILD_STORE": ",".join(map(str, items))})


def warnings_of_a_use(root: Path, caplog: pytest.LogCaptureFixture) -> list[str]:
    """Look for an entry that the store lacks, keep two, look for them; return the warnings."""
    caplog.clear()
    with layers(root) as store:
        assert store.store.get(KEY) is None
        for key in (KEY, OTHER):
            store.store.put(key, ENTRY)
            assert store.store.get(key) in (ENTRY, None)
    return [message.replace(str(root), "ROOT") for message in caplog.messages]


class TestPlaces:
    def test_a_file_in_the_place_of_the_folder(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        root = tmp_path / "file"
        root.write_text("mine")
        expected = ["ROOT: nothing new is kept: Not a directory"]
        assert warnings_of_a_use(root, caplog) == expected
        assert root.read_text() == "mine"
        for command in ("list", "prune", "verify"):
            result = invoke("store", command, root)
            assert result.exit_code == 6
            assert result.stderr == f"{root}/v2: Not a directory\n"

    @pytest.mark.parametrize("name", ["v2", f"v2/{KEY[:2]}"])
    def test_a_file_in_the_place_of_a_folder_in_it(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str
    ) -> None:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("mine")
        (warning,) = warnings_of_a_use(tmp_path, caplog)
        assert warning.startswith("ROOT: nothing new is kept: ")
        assert path.read_text() == "mine"

    def test_a_link_to_nowhere(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        root = tmp_path / "link"
        root.symlink_to(tmp_path / "gone" / "disk")
        assert warnings_of_a_use(root, caplog) == ["ROOT: nothing new is kept: File exists"]
        assert not (tmp_path / "gone").exists()

    def test_a_link_to_a_folder(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        root = tmp_path / "link"
        (tmp_path / "disk").mkdir()
        root.symlink_to(tmp_path / "disk")
        assert warnings_of_a_use(root, caplog) == []
        assert Folder(tmp_path / "disk").has(KEY)

    def test_a_front_that_cannot_be_written_does_not_hide_the_others(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        front, behind = tmp_path / "front", tmp_path / "behind"
        front.write_text("a file")
        Folder(behind).write(KEY, write_entry(KEY, ENTRY))
        with layers(front, f"{behind}?mode=ro") as store:
            assert store.store.get(KEY) == ENTRY
        message = "this folder cannot be written; nothing new is kept in it"
        assert caplog.messages == [f"{front}: {message}"]


class TestEntries:
    def replaced(self, root: Path, caplog: pytest.LogCaptureFixture) -> list[str]:
        """Return the warnings where the entry is not found, and then made again."""
        with layers(root) as store:
            assert store.store.get(KEY) is None
            store.store.put(KEY, ENTRY)
            assert store.store.get(KEY) == ENTRY
        return caplog.messages

    @pytest.mark.parametrize(
        ("raw", "problem"),
        [
            (b"", "it does not begin as an entry of the store does"),
            (b"\0" * 4096, "it does not begin as an entry of the store does"),
            (write_entry(KEY, ENTRY)[:-1], "expected 178 bytes, found 177"),
            (write_entry(KEY, ENTRY) + b"x", "expected 178 bytes, found 179"),
            (write_entry(KEY, ENTRY)[:-1] + b"x", "its SHA-256 is another one"),
            (write_entry(OTHER, ENTRY), f"it is the entry {OTHER}"),
        ],
    )
    def test_damaged_truncated_and_swapped(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture, raw: bytes, problem: str
    ) -> None:
        (path := Folder(tmp_path).path(KEY)).parent.mkdir(parents=True)
        path.write_bytes(raw)
        expected = f"{path}: damaged, set aside and made again: {problem}"
        assert self.replaced(tmp_path, caplog) == [expected]
        assert path.with_suffix(".damaged").read_bytes() == raw

    def test_a_pipe(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        (path := Folder(tmp_path).path(KEY)).parent.mkdir(parents=True)
        os.mkfifo(path)
        assert self.replaced(tmp_path, caplog) == []
        assert stat.S_ISREG(path.stat().st_mode)

    @pytest.mark.parametrize("content", [b"not an entry", None])
    def test_a_link(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture, content: bytes | None
    ) -> None:
        """What it leads to stays as it is."""
        target = tmp_path / "target"
        if content:
            target.write_bytes(content)
        (path := Folder(tmp_path).path(KEY)).parent.mkdir(parents=True)
        path.symlink_to(target)
        assert len(self.replaced(tmp_path, caplog)) == (1 if content else 0)
        assert (target.read_bytes() if target.exists() else None) == content
        assert not path.is_symlink()

    def test_a_folder(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        mine = Folder(tmp_path).path(KEY) / "mine"
        mine.parent.mkdir(parents=True)
        mine.touch()
        assert warnings_of_a_use(tmp_path, caplog) == ["ROOT: nothing new is kept: Is a directory"]
        assert mine.exists()


def test_a_full_disk_leaves_no_half_an_entry(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    large = Entry({}, bytes(100_000))
    with layers(tmp_path) as store:
        with full_disk(50_000):
            store.store.put(KEY, large)
            store.store.put(OTHER, large)
        assert store.store.get(KEY) is None
        assert store.store.made == set()
        assert caplog.messages == [f"{tmp_path}: nothing new is kept: File too large"]
        store.store.put(KEY, large)  # there is room again
        assert store.store.get(KEY) == large
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == [KEY]


def test_a_full_disk_does_not_fail_a_fetch(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    front, behind = tmp_path / "front", tmp_path / "behind"
    Folder(behind).write(KEY, write_entry(KEY, Entry({}, bytes(100_000))))
    with layers(front, behind) as store, full_disk(50_000):
        assert store.store.get(KEY) is None
    assert caplog.messages == [f"{front}: nothing new is kept: File too large"]


def test_a_full_layer_behind_is_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    front, behind = tmp_path / "front", tmp_path / "behind"
    with layers(front, behind) as store:
        for key in (KEY, OTHER):
            store.store.put(key, Entry({}, bytes(100_000)))
        with full_disk(50_000):
            store.push()
        assert store.counts.pushed == 0
    (message,) = caplog.messages
    assert message.startswith(f"{behind}: left out for the rest of the build: ")
    assert "File too large" in message


# --- whole builds -----------------------------------------------------------------------------

MANIFEST = """
version: 1
package: proj
functions:
  f: {call: "proj.m:f", args: [x: "f32[n]"], dims: {n: [2, 4, 8]}, verify: {golden: never}}
"""
UNITS = 3
# Root passes over permissions; without these capabilities it is a user like others.
DROP = "-dac_override,-dac_read_search,-fowner,-chown"
LIKE_A_USER = ("setpriv", "--bounding-set", DROP) if os.geteuid() == 0 else ()
NOBODY = 65534
MEMORY = Path("/dev/shm")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("hazards") / "project"
    return write_project(root, MANIFEST, m="def f(x):\n    return x * 2 + x.sum()\n")


@pytest.fixture(scope="module")
def filled(project: Path) -> Path:
    """A store with what a build has compiled; the folder `whole` beside it is what it wrote."""
    store = project.parent / "filled"
    build(project, store, out=project.parent / "whole")
    return store


def build(
    project: Path,
    store: Path,
    out: Path,
    *,
    before: tuple[str, ...] = (),
    shell: str = "",
    **variables: str,
) -> list[str]:
    """Build a project by the command line; return what it said beside its progress."""
    command = [*before, sys.executable, "-m", "aotbuild", "build", str(project / "aot.yaml")]
    command += ["--out", str(out), "--jobs", "1"]
    if shell:
        command = ["unshare", "-m", "sh", "-c", f'{shell} && exec "$@"', "sh", *command]
    environment = {**clean_environment(), "AOTBUILD_STORE": str(store), **variables}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    progress = ("starting ", "importing ", "tracing ", "compiling ")
    return [line for line in done.stderr.splitlines() if not line.startswith(progress)]


def hits(lines: list[str]) -> int:
    return sum(line.endswith("from the store)") for line in lines)


def warnings_in(lines: list[str]) -> list[str]:
    return [line for line in lines if "] done: " not in line]


def assert_same(project: Path, out: Path) -> None:
    """The executables are those of a build with a store that has nothing wrong."""
    blobs = [
        {path.name for path in (folder / "blobs").rglob("*")} for folder in (out, whole(project))
    ]
    assert blobs[0] == blobs[1]


def whole(project: Path) -> Path:
    return project.parent / "whole"


@pytest.mark.process
@pytest.mark.any_jax
def test_a_read_only_store_is_used(project: Path, filled: Path, tmp_path: Path) -> None:
    store = shutil.copytree(filled, tmp_path / "store")
    make_read_only(store)
    lines = build(project, store, tmp_path / "out", before=LIKE_A_USER)
    assert (hits(lines), warnings_in(lines)) == (UNITS, [])
    assert_same(project, tmp_path / "out")


@pytest.mark.process
@pytest.mark.any_jax
def test_a_read_only_store_that_lacks_everything(
    project: Path, filled: Path, tmp_path: Path
) -> None:
    (store := tmp_path / "store").mkdir()
    make_read_only(store)
    lines = build(project, store, tmp_path / "out", before=LIKE_A_USER)
    expected = [f"{store}: nothing new is kept: Permission denied"]
    assert (hits(lines), warnings_in(lines)) == (0, expected)
    assert_same(project, tmp_path / "out")


def make_read_only(store: Path) -> None:
    for path in (store, *store.rglob("*")):
        path.chmod(path.stat().st_mode & 0o555)


@AS_ROOT
@pytest.mark.process
@pytest.mark.any_jax
@pytest.mark.parametrize(("mode", "found"), [(0o700, 0), (0o755, UNITS)])
def test_a_store_of_somebody_else(
    project: Path, filled: Path, tmp_path: Path, mode: int, found: int
) -> None:
    store = shutil.copytree(filled, tmp_path / "store")
    for path in (store, *store.rglob("*")):
        os.chown(path, NOBODY, NOBODY)
    store.chmod(mode)
    lines = build(project, store, tmp_path / "out", before=LIKE_A_USER)
    owned, *rest = warnings_in(lines)
    assert owned.startswith(f"{store}: it belongs to nobody, and what others put there would run ")
    expected = [] if found else [f"{store}: nothing new is kept: Permission denied"]
    assert (hits(lines), rest) == (found, expected)
    assert_same(project, tmp_path / "out")


@pytest.mark.process
@pytest.mark.any_jax
@pytest.mark.skipif(not MEMORY.is_dir(), reason="needs a file system in memory")
def test_a_store_on_another_file_system(project: Path, filled: Path, tmp_path: Path) -> None:
    with TemporaryDirectory(dir=MEMORY) as store:
        for name in ("cold", "warm"):
            assert warnings_in(build(project, Path(store), tmp_path / name)) == []
            assert_same(project, tmp_path / name)
        assert hits(build(project, Path(store), tmp_path / "again")) == UNITS


@AS_ROOT
@pytest.mark.process
@pytest.mark.any_jax
def test_a_full_disk_on_another_file_system(project: Path, filled: Path, tmp_path: Path) -> None:
    (store := tmp_path / "store").mkdir()
    mount = f"mount -t tmpfs -o size=8k,mode=755 tmpfs '{store}'"
    lines = build(project, store, tmp_path / "out", shell=mount)
    expected = [f"{store}: nothing new is kept: No space left on device"]
    assert (hits(lines), warnings_in(lines)) == (0, expected)
    assert_same(project, tmp_path / "out")


@AS_ROOT
@pytest.mark.process
@pytest.mark.any_jax
def test_a_file_system_that_is_mounted_read_only(
    project: Path, filled: Path, tmp_path: Path
) -> None:
    mount = f"mount --bind '{filled}' '{filled}' && mount -o remount,ro,bind '{filled}'"
    lines = build(project, filled, tmp_path / "out", shell=mount)
    assert (hits(lines), warnings_in(lines)) == (UNITS, [])
    assert_same(project, tmp_path / "out")


@pytest.mark.process
@pytest.mark.any_jax
def test_every_entry_is_wrong_in_another_way(project: Path, filled: Path, tmp_path: Path) -> None:
    # Executables alone.
    off = {"AOTBUILD_TIMES": "off"}
    build(project, store := tmp_path / "store", tmp_path / "first", **off)
    first, second, third = sorted(path for path in store.rglob("*") if path.is_file())
    first.write_bytes(second.read_bytes())
    second.write_bytes(second.read_bytes()[:-1])
    third.unlink()
    (third / "mine").mkdir(parents=True)
    lines = build(project, store, tmp_path / "out", **off)
    assert hits(lines) == 0
    kinds = sorted(line.rpartition(": ")[0].rpartition(": ")[2] for line in warnings_in(lines))
    assert kinds == ["damaged, set aside and made again", "nothing new is kept"]
    assert_same(project, tmp_path / "out")
